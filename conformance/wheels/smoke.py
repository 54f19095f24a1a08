"""Run by `nox -s build` in a clean environment with one of our wheels: import it, run its README, list its names."""

import contextlib
import importlib
import importlib.metadata
import importlib.util
import io
import re
import sys
from pathlib import Path


def main(distribution: str) -> None:
    name = "mosaic_tpu." + distribution.removeprefix("mosaic-tpu-")
    package = importlib.import_module(name)
    folder = Path(package.__file__).parent
    if not folder.is_relative_to(sys.prefix):
        sys.exit(f"{name} came from {folder}, not from its wheel")
    if not (folder / "py.typed").is_file():
        sys.exit(f"{name} has no py.typed: type checkers would ignore its annotations")
    if not package.__all__:
        sys.exit(f"{name} has no public names")
    if not any(str(file).endswith("licenses/LICENSE") for file in importlib.metadata.files(distribution)):
        sys.exit(f"the wheel of {distribution} carries no licence")
    printed = run_readme(distribution)
    if distribution == "mosaic-tpu-builder":
        if importlib.util.find_spec("jax") is not None:
            sys.exit("jax is installed beside the builder: a dependency brings it")
        if "module" not in printed:
            sys.exit("the builder's README shows no kernel being emitted: that is the proof that it needs no jax")
    print(f"{distribution} {importlib.metadata.version(distribution)}, alone: {name} has", *sorted(package.__all__))


def run_readme(distribution: str) -> str:
    """Run the examples in the README that the wheel carries, and return what they print."""
    readme = importlib.metadata.metadata(distribution).get_payload()
    printed = io.StringIO()
    names = {"__name__": "readme"}
    with contextlib.redirect_stdout(printed):
        for example in re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL):
            try:
                exec(compile(example, "README.md", "exec"), names)
            except Exception as error:
                if not _wants_an_extra(error):
                    raise
    return printed.getvalue()


def _wants_an_extra(error: Exception) -> bool:
    """Whether the error says that the example needs JAX or the simulator, which are extras and not installed."""
    if isinstance(error, ModuleNotFoundError):
        return error.name == "jax"
    return "pip install mosaic-tpu-sim" in str(error) and importlib.util.find_spec("mosaic_tpu.sim") is None


if __name__ == "__main__":
    main(sys.argv[1])
