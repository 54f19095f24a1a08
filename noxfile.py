"""What can be run here: `nox -l` lists it, `nox -s tests` runs the tests; arguments after `--` reach the tool."""

# Older Pythons must be able to read this file up to here and compile the rest, so no syntax of 3.8 or later below.
import sys

if sys.version_info < (3, 12):  # noqa: UP036 - nox may run on any Python
    sys.exit(
        "mosaic-tpu needs Python 3.12 or newer and this is Python %d.%d.%d: run the same command with a newer one, "  # noqa: UP031
        "for example from python.org, pyenv or uv, after deleting .venv if the command made it." % sys.version_info[:3]
    )

import functools
import shutil
import tomllib
from pathlib import Path

import nox
from nox.virtualenv import ALL_VENVS, VirtualEnv

# ---------------------------------------------------------------------------------------------------------------------
ROOT = Path(__file__).parent
PYPROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
ROOMS = (*sorted(file.parent for file in ROOT.glob("packages/*/pyproject.toml")), ROOT / "zoo")
EDITABLE = tuple(argument for room in ROOMS for argument in ("-e", str(room.relative_to(ROOT))))
# libtpu has the TPU compiler, which needs no TPU; its wheels are for Linux.
EXTRA = "[tpu]" if sys.platform == "linux" else ""
NEWEST_JAX = "jax" + EXTRA
OLDEST_JAX = "jax" + EXTRA + "==0.11.2"
WORKERS = "2"
TESTS = ("packages", "zoo", "conformance/repository")
# Keeps libtpu from looking for a TPU. Only what runs in a process of its own may use one.
NO_TPU = {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1"}
# The tests of shard_map need several devices.
FOUR_DEVICES = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
# ---------------------------------------------------------------------------------------------------------------------

nox.options.sessions = ["tests"]
nox.options.default_venv_backend = "venv"
nox.options.reuse_venv = "yes"
nox.options.error_on_external_run = True


def _shared(envdir, **options):
    """An environment that sessions share: with JAX and libtpu each would take 1.3 GB and most of a minute."""
    return VirtualEnv(str(Path(envdir).parent / "jax"), venv_backend="venv", **options)


ALL_VENVS["shared"] = _shared
shared_session = functools.partial(nox.session, venv_backend="shared")


def install(session, *requirements, groups=()):
    """Our packages as they stand in the tree, with `requirements` and dependency groups, in one resolution."""
    # Without an isolated environment for each package's build, a session that finds all in place is 8 s faster.
    session.install(*nox.project.dependency_groups(PYPROJECT, "editable"))
    dependencies = nox.project.dependency_groups(PYPROJECT, *groups)
    session.install("--no-build-isolation", *EDITABLE, *requirements, *dependencies)


def _pytest(session, *paths, options=(), **more):
    """Pytest on the paths among the session's arguments; where they name none, on `paths`."""
    named = any((ROOT / argument.partition("::")[0]).exists() for argument in session.posargs)
    chosen = (*session.posargs, *(() if named else paths))
    session.run("pytest", "-n", WORKERS, "--durations", "10", *options, *chosen, **more)


# What the first session that asked was told of a TPU; it stands for all of this run.
_TPU = []


def _word_on_tpu(session):
    """`tpu` where one is attached, else the sentence that none is, found out once, in a process that ends again."""
    if not _TPU:
        said = session.run("python", "-m", "conformance.harness.attached", silent=True, log=False)
        # Around the one line libtpu may say much.
        _TPU.append(next(line for line in said.splitlines() if line == "tpu" or line.startswith("No TPU")))
    return _TPU[0]


def _conformance(session, report):
    """The suite without a TPU, in parallel; then, where a TPU is attached, what runs on it, in one process."""
    on_tpu = "conformance/test_on_tpu.py"
    # Arguments that name tests have them run in parallel; with the tests on the TPU alone, only those.
    named = [a for a in session.posargs if (ROOT / a.partition("::")[0]).exists()]
    alone = bool(named) and all(a.startswith(on_tpu) for a in named)
    # 5: the arguments, or an older JAX, deselect all of them.
    codes = [0, 5] if session.posargs else [0]
    if not alone:
        # The repository's own tests belong to `tests`: what the README shows is the newest JAX's.
        options = ("--ignore", "conformance/repository")
        if not session.posargs:  # arguments may leave out tests, and what is left is no report of the suite
            options += ("--conformance-json", f".conformance/{report}.json")
        _pytest(session, "conformance", options=options, env=NO_TPU, success_codes=codes)
    if named and not alone:
        return
    if _word_on_tpu(session) == "tpu":
        options = ("--conformance-json", f".conformance/{report}-on-tpu.json")
        paths = () if alone else (on_tpu,)
        session.run("pytest", *session.posargs, *options, *paths, success_codes=codes)


@shared_session
def demo(session):
    """Emit the kernels, compare them with Pallas, compile them for TPUs: no TPU needed."""
    install(session, NEWEST_JAX)
    session.run("python", "-m", "conformance.demo", *session.posargs, env=NO_TPU)


@shared_session
def tests(session):
    """Every package's tests, and the repository's own."""
    install(session, NEWEST_JAX, groups=["test"])
    _pytest(session, *TESTS, env=NO_TPU | FOUR_DEVICES)


@shared_session
def conformance(session):
    """Our bytes against Pallas's, with the newest JAX and then with the oldest we support; the TPU compiler's word."""
    session.notify("conformance-oldest", session.posargs)
    install(session, NEWEST_JAX, groups=["conformance"])
    session.install("--upgrade", NEWEST_JAX)
    _conformance(session, "report")


@nox.session(name="conformance-oldest")
def conformance_oldest(session):
    """The second half of `conformance`: the oldest JAX we support."""
    install(session, OLDEST_JAX, groups=["conformance"])
    _conformance(session, "report-oldest-jax")
    if _word_on_tpu(session) != "tpu":
        session.log(_word_on_tpu(session))


@shared_session
def bench(session):
    """Our time from config to body as ratios to Pallas's and to the floor, and the simulator's to Pallas's."""
    install(session, NEWEST_JAX, groups=["bench"])
    session.run("python", "-m", "conformance.bench", *session.posargs, env=NO_TPU)


@shared_session
def fuzz(session):
    """Random programs on both of the simulator's engines, and on NumPy."""
    install(session, NEWEST_JAX, groups=["conformance"])
    session.run("python", "-m", "conformance.fuzz", *(session.posargs or ("--count", "20000")), env=NO_TPU)


@shared_session
def tune(session):
    """The tables that the zoo's defaults come from, by the TPU compiler's estimates."""
    install(session, NEWEST_JAX, groups=["conformance"])
    session.run("python", "-m", "conformance.tuning", *session.posargs, env=NO_TPU)


@shared_session(name="cheat-sheet")
def cheat_sheet(session):
    """docs/cheat-sheet.md: what the pairs of micro-kernels emit, on the newest JAX and on the oldest we support."""
    install(session, OLDEST_JAX, groups=["conformance"])
    session.run("python", "-m", "conformance.cheat_sheet", *session.posargs, env=NO_TPU)
    session.install("--upgrade", NEWEST_JAX)
    session.run("python", "-m", "conformance.cheat_sheet", *session.posargs, env=NO_TPU)


#: Material's word on the next MkDocs is not about this build.
QUIET_MKDOCS = {"NO_MKDOCS_2_WARNING": "1"}


@shared_session
def docs(session):
    """The documentation site: its pages are made, its examples run, and it is built and looked at in a browser."""
    if not EXTRA:
        session.skip("Its pages ask the TPU compiler, and libtpu's wheels are for Linux.")
    install(session, NEWEST_JAX, groups=["docs"])
    session.run("python", "-m", "docs.generate", env=NO_TPU)
    session.run("mkdocs", "build", "--strict", "--quiet", env=NO_TPU | QUIET_MKDOCS)
    # A page's examples share their names, and the browser is started once: each file stays with one worker.
    _pytest(session, "docs", options=("--dist", "loadfile"), env=NO_TPU)


@shared_session(name="docs-outputs")
def docs_outputs(session):
    """Write what the examples of the site's pages print now into the pages; arguments name pages."""
    install(session, NEWEST_JAX, groups=["docs"])
    session.run("python", "-m", "docs.generate.examples", *session.posargs, env=NO_TPU)


@shared_session(name="docs-artefacts")
def docs_artefacts(session):
    """What the site shows and no build should wait for: schedules, rooflines, and the conformance reports condensed."""
    install(session, NEWEST_JAX, groups=["docs", "conformance"])
    session.run("python", "-m", "docs.generate.artefacts", *session.posargs, env=NO_TPU)


@shared_session
def measure(session):
    """What is known by measuring it: aot's tables against the compiler, the memory that a simulation takes."""
    install(session, NEWEST_JAX, groups=["conformance"])
    session.run("python", "-m", "conformance.measure", *session.posargs, env=NO_TPU)


@nox.session
def lint(session):
    """Ruff, workflows, shell scripts, changelog fragments."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "lint"))
    session.run("ruff", "check", *session.posargs)
    session.run("ruff", "format", "--check")
    session.run("shellcheck", ".ci/run")
    session.run("actionlint", *(str(file.relative_to(ROOT)) for file in sorted(ROOT.glob(".github/workflows/*.yml"))))
    # A draft fails on a fragment whose name fits no kind of change; what it prints is the next release's notes.
    session.run("towncrier", "build", "--draft", "--version", "next")


@shared_session
def types(session):
    """Pyright, strict, on the public packages."""
    install(session, NEWEST_JAX, groups=["types"])
    # Named, since basedpyright would otherwise prefer the .venv that holds nox.
    session.run("basedpyright", "--pythonpath", str(Path(session.bin) / "python"), *session.posargs)


@nox.session
def build(session):
    """Build each wheel, install it alone in a clean environment, import it there and list its names."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "build"))
    scratch = Path(session.create_tmp()).resolve()
    wheels = {}
    for room in ROOMS:
        shutil.rmtree(scratch / room.name, ignore_errors=True)
        session.run("python", "-m", "build", "--outdir", str(scratch / room.name), str(room), silent=True)
        (wheels[_project(room)["name"]],) = (scratch / room.name).glob("*.whl")
    for room in ROOMS:
        project = _project(room)
        environment = scratch / "environment"
        session.run("python", "-m", "venv", "--clear", str(environment))
        python = str(environment / "bin" / "python")
        # Ours by file: nothing of this name is taken from a registry.
        ours = [str(wheels[name]) for name in _with_siblings(project["name"], wheels.keys())]
        session.run(python, "-m", "pip", "install", "--quiet", *ours, external=True)
        session.run(python, "-I", "conformance/wheels/smoke.py", project["name"], external=True)
        shutil.rmtree(environment)


def _project(room):
    return tomllib.loads((room / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _with_siblings(name, ours):
    """The distribution and those of `ours` that it needs, sorted."""
    needed = {name}
    project = next(project for project in map(_project, ROOMS) if project["name"] == name)
    for requirement in project["dependencies"]:
        sibling = requirement.partition("==")[0]
        if sibling in ours:
            needed.update(_with_siblings(sibling, ours))
    return sorted(needed)
