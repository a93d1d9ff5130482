#!/usr/bin/env python3
"""Brings XLA's PJRT plugins for CPUs to DEST, for the tests of the backend pjrt: cpu/pjrt_c_api_cpu_plugin.so (interface
0.115) and old/xla_cpu_pjrt.so (0.81, for compatibility).

    fetch_pjrt.py DEST

They come from PyPI (60 MB each) and are checked by SHA-256. What is there already is left alone.
"""
import pathlib
import sys
import tempfile

import fetching

PLUGINS = (  # package, version, path in it, name in DEST, SHA-256
    ("lammps-jax-pjrt-cpu", "0.11.2", "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so", "cpu/pjrt_c_api_cpu_plugin.so",
     "ad1309ac822b1b24d51b7f9947c7c9fa9ef5d67f390584cbc3d1fa2428fed9c2"),
    ("xla-cpu-pjrt", "0.0.1", "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so", "old/xla_cpu_pjrt.so",
     "88c3f28c5900f48ad4a82cab9e79bba9537809743395e341485f8794268820dc"),
)


def main(dest):
    for package, version, path, name, digest in PLUGINS:
        if (dest / name).exists():  # checked when it was placed
            continue
        with tempfile.TemporaryDirectory() as scratch:
            archive = fetching.package("pypi", package, version, scratch)
            fetching.place(fetching.members(archive, [path])[0], dest / name, digest)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        main(pathlib.Path(sys.argv[1]))
    except fetching.FetchError as error:
        sys.exit(f"fetch_pjrt: {error}")
