"""What this distribution requires; all else is in setup.cfg.

In a checkout the client is required from the folder beside this one, so that ``pip install ./clients/mqspark`` is enough.  A source
distribution has no such folder, and what is built from one names the client as any other requirement.
"""

from pathlib import Path

from setuptools import setup

VERSION = "0.1.0"
CLIENT = Path(__file__).resolve().parent.parent / "mqclient"

setup(
    install_requires=[
        f"mqclient @ {CLIENT.as_uri()}" if (CLIENT / "setup.cfg").is_file() else f"mqclient == {VERSION}",
        "pyspark[sql] >= 4.2, < 5",
        # Spark 4 calls pandas 3 "not fully supported".
        "pandas >= 2.2, < 3",
        "pyarrow >= 18",
        "numpy >= 1.26",
        # Pages of a broker may be compressed.
        "lz4 >= 4.4",
        "click >= 8.1",
        "rich >= 13.9",
    ],
)
