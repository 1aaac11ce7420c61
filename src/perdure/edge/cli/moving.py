"""`sessions export` and `sessions import`: a session as JSON lines, out of one store and into another."""

import sys

import click

from perdure.edge.cli import documents
from perdure.edge.cli.opening import opened, session_of
from perdure.edge.cli.options import json_option, store_option
from perdure.edge.cli.text import counted
