"""Builds this distribution; setup.cfg says what it is.

With ``MQBROKER_COMPILED=1`` the modules that pyproject.toml names under ``tool.mqbroker.compiled`` are compiled with mypyc, from the same
source.  That needs a C compiler and the headers of Python.  Without it nothing is compiled and nothing more is needed.
``MYPYC_OPT_LEVEL`` (0 to 3, the default) is how hard the C compiler tries.

The broker and the client have the same file.
"""

import os
import shutil
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any, NoReturn

from setuptools import setup

HERE = Path(__file__).resolve().parent
VARIABLE = "MQBROKER_COMPILED"
COMPILER = "mypy == 2.4.1"
MYPY_OPTIONS = (
    # Neither what is configured for the checks nor what happens to be installed is to change what is built.
    "--config-file=",
    "--no-site-packages",
    "--ignore-missing-imports",
    "--follow-imports=silent",
    "--namespace-packages",
    "--explicit-package-bases",
)
COMMANDS = {"bdist_wheel", "build", "build_ext", "editable_wheel", "install"}
"""Those that compile; others only ask what is needed."""


def refuse(reason: str) -> NoReturn:
    sys.exit(f"{VARIABLE} asks for the compiled form: {reason}. Without {VARIABLE} the pure form is built, which needs no compiler.")


def check_compiler() -> None:
    if os.name != "posix":
        return
    command = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(command) is None:
        refuse(f"it needs a C compiler, and there is no {command}")
    headers = Path(sysconfig.get_paths()["include"])
    if not (headers / "Python.h").is_file():
        refuse(f"it needs the headers of Python, and there is no Python.h in {headers}")


def extensions() -> list[Any]:
    """What setuptools has to compile.  Exits with a sentence when that cannot be done."""
    check_compiler()
    wanted = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mqbroker"]["compiled"]
    for folder in wanted["sources"]:
        if not (HERE / folder).is_dir():
            refuse(f"it is built in a checkout, which has {folder}; a source archive has not")
    try:
        from mypyc.build import mypycify
    except ImportError:
        refuse(f"it needs {COMPILER}, which pip gets by itself unless --no-build-isolation is given")
    os.chdir(HERE)
    os.environ["MYPYPATH"] = os.pathsep.join(wanted["sources"])
    files = [f"{wanted['sources'][0]}/{module.replace('.', '/')}.py" for module in wanted["modules"]]
    name = wanted["modules"][0].split(".")[0]
    return list(mypycify([*MYPY_OPTIONS, *files], group_name=name, opt_level=os.environ.get("MYPYC_OPT_LEVEL", "3"), debug_level="0"))


if os.environ.get(VARIABLE, "0") in ("", "0"):
    setup()
elif COMMANDS & set(sys.argv):
    setup(ext_modules=extensions())
else:
    setup(setup_requires=[COMPILER])
