"""Providers of models on the loopback device: `python -m upstream --port 0`, or `upstream.server.Server` in a test.

One server speaks Anthropic's Messages, OpenAI's Chat Completions and its Responses, streaming and not, to the letter,
and without a model behind them. The name of the model says what happens (see `upstream.script`). It shares no code with
perdure, so that it does not share its misunderstandings.
"""
