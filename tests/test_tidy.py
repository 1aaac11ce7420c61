"""Style as a test: what we promise each other about size, names, prose and places, read from the files.

Every test collects all offenders before it complains, so that one run shows the whole list. A rule that makes
a piece of code worse may be bent, but here, in the open and with its reason (see `BROAD_EXCEPTS`).
"""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "perdure"

MODULE_LINES = 400
FUNCTION_LINES = 60
PUBLIC_NAMES = 28
ROOT_DISTRIBUTIONS = 12

# Files outside edge/ that may catch everything, each with the reason why nothing narrower would do.
BROAD_EXCEPTS: dict[str, str] = {
    "core/session/shown.py": "the words of a foreign error are foreign code, too",
    "core/session/schema.py": "a migration is the application's code and may raise anything; the step must be named",
    "forking.py": "nobody calls again after a fork; what one object raises keeps no other from going on",
    "services/foreign.py": "what a function of the application raises is delivered to whoever asked it",
    "services/cleanup.py": "hooks are the application's code; what they raise is noted and they are tried again",
    "services/compacting.py": "hooks are the application's code; what they raise is noted and the compaction goes on",
    "services/talking.py": "the last door of a turn that runs by itself: whatever it was, the turn is closed and told",
    "services/timeouts.py": "hooks are the application's code, and one session must not keep a sweep from the others",
    "services/lifecycle.py": "hooks and compensations are the application's code; what they raise is an answer",
    "services/rebinding.py": "a tool registry is the application's code; one that raises offers and allows nothing",
    "services/rehydration.py": "retrievers and caches are the application's code; what they raise is their failure",
    "services/weighing.py": "an embedder or a reader may raise anything; it is done without, and the steps say so",
    "services/tooling.py": "a tool is the application's code or a server's; what it raises is a failed result",
    "services/waking.py": "a provider of memory is the application's code; what it raises is the layer's failure",
    "stores/postgres/readers.py": "what a reader thread raises is delivered to the task that asked",
    "stores/sqlite/readers.py": "what a reader thread raises is delivered to the task that asked",
    "tools/mcp_link.py": "whatever ends a connection is told to those who wait for it",
    "tools/python.py": "what a tool raises on its thread is delivered to the task that asked",
}

# Files that must spell what others named so: the folders and functions of a framework.
FOREIGN_NAMES: dict[str, str] = {
    "src/perdure/importers/claude_code.py": "Claude's folder of nested transcripts is called so",
    "tests/adapters/test_claude_agent.py": "the SDK's functions and keys for nested transcripts are called so",
    "tests/importers/test_claude_code.py": "Claude's folder of nested transcripts is called so",
}

# Spelled in halves, so that this file passes its own test.
COMING = "a word about how the text came to be"
FORBIDDEN_TEXT = {
    "a path of somebody's machine": re.compile(r"(?<![\w.])/(?:" + "work|home|root|Users" + r")/\w|/tmp/" + "spine"),
    COMING: re.compile("sub" + "-?agent", re.IGNORECASE),
    "a number in somebody's tracker": re.compile(r"\bissue " + r"#", re.IGNORECASE),
    "the name of a package host": re.compile("pypi" + r"\.org|python" + r"hosted\.", re.IGNORECASE),
}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.ClassDef | Function


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def modules() -> dict[Path, ast.Module]:
    """Every module of the package, parsed once."""
    return {path: ast.parse(path.read_text("utf-8"), shown(path)) for path in sorted(PACKAGE.rglob("*.py"))}


def nodes(*kinds: type[ast.AST]) -> Iterator[tuple[Path, ast.AST]]:
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, kinds):
                yield path, node


def assigned(node: ast.stmt) -> list[str]:
    """The plain names that a statement assigns, or nothing."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def exported(tree: ast.Module) -> list[str] | None:
    """The literal `__all__` of a module, or None where it has none."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and "__all__" in assigned(node) and node.value is not None:
            return list(ast.literal_eval(node.value))
    return None


# ── size ──────────────────────────────────────────────────────────────────────────────────────────


def test_no_module_is_longer_than_one_can_keep_in_mind() -> None:
    lines = {shown(path): len(path.read_text("utf-8").splitlines()) for path in modules()}
    assert {path: count for path, count in lines.items() if count > MODULE_LINES} == {}


def test_every_function_fits_on_a_screen() -> None:
    long = [
        f"{shown(path)}:{node.lineno} {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for path, node in nodes(ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, Function) and node.end_lineno and node.end_lineno - node.lineno >= FUNCTION_LINES
    ]
    assert long == []


def test_the_root_exports_few_names() -> None:
    names = exported(modules()[PACKAGE / "__init__.py"]) or []
    assert len(names) <= PUBLIC_NAMES, f"{len(names)} names; {PUBLIC_NAMES} is what a reader takes in at once"


# ── places and names ──────────────────────────────────────────────────────────────────────────────


def test_every_folder_is_a_package_so_that_the_import_linter_sees_it() -> None:
    folders = {path.parent for suffix in ("*.py", "*.sql") for path in PACKAGE.rglob(suffix)}
    assert [shown(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_names_say_what_a_thing_is() -> None:
    vague = re.compile(r"utils|manager|helper|(?:^|_)util$|v[23]$", re.IGNORECASE)
    named = [(path, path.stem if path.stem != "__init__" else path.parent.name) for path in modules()]
    named += [
        (path, node.name)
        for path, node in nodes(ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, Definition)
    ]
    assert [f"{shown(path)}: {name}" for path, name in named if vague.search(name)] == []


def may_stand_in_init(node: ast.stmt) -> bool:
    """Docstring, imports, dunder lists, a lazy loader and the table of strings that it reads."""
    match node:
        case ast.Expr(value=ast.Constant(value=str())) | ast.Import() | ast.ImportFrom():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return all(may_stand_in_init(inner) for inner in node.body + node.orelse)
        case ast.FunctionDef():
            return node.name in {"__getattr__", "__dir__"}
        case ast.Assign() | ast.AnnAssign():
            if set(assigned(node)) & {"__all__", "__version__"}:
                return True
            return isinstance(node.value, ast.Dict) and all(
                isinstance(part, ast.Constant | ast.Tuple) for part in node.value.values
            )
        case _:
            return False


def test_an_init_only_introduces_its_package() -> None:
    misplaced = [
        f"{shown(path)}:{node.lineno}"
        for path, tree in modules().items()
        if path.name == "__init__.py"
        for node in tree.body
        if not may_stand_in_init(node)
    ]
    assert misplaced == []


# ── prose and errors ──────────────────────────────────────────────────────────────────────────────


def test_every_module_says_what_lives_in_it() -> None:
    assert [shown(path) for path, tree in modules().items() if not ast.get_docstring(tree)] == []


def catches_everything(handler: ast.ExceptHandler) -> bool:
    """Bare, `Exception` or `BaseException`, unless it ends by raising the same again."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    broad = any(
        kind is None or (isinstance(kind, ast.Name) and kind.id in {"Exception", "BaseException"}) for kind in kinds
    )
    last = handler.body[-1]
    return broad and not (isinstance(last, ast.Raise) and last.exc is None)


def broad_excepts() -> list[tuple[str, int]]:
    return [
        (path.relative_to(PACKAGE).as_posix(), node.lineno)
        for path, node in nodes(ast.ExceptHandler)
        if isinstance(node, ast.ExceptHandler) and catches_everything(node)
    ]


def test_only_an_edge_catches_everything() -> None:
    assert [
        f"{path}:{line}" for path, line in broad_excepts() if not path.startswith("edge/") and path not in BROAD_EXCEPTS
    ] == []


def test_no_exception_to_the_rule_outlives_its_need() -> None:
    assert set(BROAD_EXCEPTS) - {path for path, _ in broad_excepts()} == set()


# ── stores ────────────────────────────────────────────────────────────────────────────────────────


def contract_subclasses() -> set[str]:
    """Names, in lower case, of the classes under tests/stores that inherit StoreContract."""
    names = set()
    for path in (ROOT / "tests" / "stores").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                bases = {
                    base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases
                }
                if "StoreContract" in bases:
                    names.add(node.name.lower())
    return names


def stores() -> list[str]:
    """Packages in stores/, and single modules there that define a class called …Store."""
    folder = PACKAGE / "stores"
    packages = [path.parent.name for path in folder.glob("*/__init__.py")]
    singles = [
        path.stem
        for path in folder.glob("*.py")
        for node in modules()[path].body
        if isinstance(node, ast.ClassDef) and node.name.endswith("Store")
    ]
    return sorted(name for name in {*packages, *singles} if not name.startswith("_"))


def test_every_store_runs_the_whole_contract() -> None:
    subclasses = contract_subclasses()
    assert [name for name in stores() if not any(name in subclass for subclass in subclasses)] == []


# ── dependencies ──────────────────────────────────────────────────────────────────────────────────


def project() -> dict[str, list[str]]:
    """Requirement lines by where they are declared."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = table["project"].get("optional-dependencies", {})
    return {
        "dependencies": table["project"]["dependencies"],
        "extras": [line for lines in extras.values() for line in lines],
        "build": table["build-system"]["requires"],
    }


def asked(name: str) -> list[Requirement]:
    """What a requirements/*.in file asks for itself."""
    lines = (ROOT / "requirements" / f"{name}.in").read_text("utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith(("#", "-"))]


def test_the_root_lock_is_made_from_the_declared_dependencies() -> None:
    declared = [Requirement(line) for line in project()["dependencies"]]
    assert sorted(map(str, asked("root"))) == sorted(map(str, declared))


def test_a_root_install_stays_small() -> None:
    text = (ROOT / "requirements" / "root.txt").read_text("utf-8")
    assert 1 + len(re.findall(r"^\S+==", text, re.MULTILINE)) <= ROOT_DISTRIBUTIONS


@pytest.mark.parametrize("name", ["root", "dev", "judges", "litellm", "mem0", "minilm"])
def test_every_lock_answers_its_input_and_is_hashed(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    pins = dict(re.findall(r"^([\w.\[\]-]+)==(\S+)", text, re.MULTILINE))
    locked = {canonicalize_name(pin.partition("[")[0]): version for pin, version in pins.items()}
    stale = [str(need) for need in asked(name) if locked.get(canonicalize_name(need.name), "0") not in need.specifier]
    assert stale == [], "run `make lock`"
    unhashed = [line for line in re.findall(r"^[\w.\[\]-]+==.*", text, re.MULTILINE) if not line.endswith("\\")]
    assert unhashed == []
    assert "://" not in text


def test_every_dependency_has_its_reason_written_down() -> None:
    page = (ROOT / "docs" / "DEPENDENCIES.md").read_text("utf-8")
    explained = {canonicalize_name(name) for name in re.findall(r"^\| `([\w.-]+)", page, re.MULTILINE)}
    wanted = {Requirement(line).name for lines in project().values() for line in lines}
    wanted |= {need.name for name in ("root", "dev") for need in asked(name)}
    assert sorted(name for name in wanted if canonicalize_name(name) not in explained) == []


# ── text ──────────────────────────────────────────────────────────────────────────────────────────


def texts() -> Iterator[tuple[str, str]]:
    """Every text file that is tracked or about to be; without git, nothing."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        found = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout, so there is no list of the project's own files")
    for name in filter(None, found.split("\0")):
        if (ROOT / name).is_file():
            content = (ROOT / name).read_bytes()
            if b"\0" not in content[:8000]:
                yield name, content.decode("utf-8", "replace")


def test_no_file_of_the_project_is_a_link() -> None:
    names = subprocess.run(["git", "ls-files", "-sz"], cwd=ROOT, capture_output=True, check=False).stdout.decode()
    assert not [line for line in names.split("\0") if line.startswith("120000")]


def test_the_repository_speaks_of_the_project_alone() -> None:
    assert [
        f"{name}: {what}: {hit.group()!r}"
        for name, text in texts()
        for what, pattern in FORBIDDEN_TEXT.items()
        if (hit := pattern.search(text)) and not (name in FOREIGN_NAMES and what == COMING)
    ] == []
