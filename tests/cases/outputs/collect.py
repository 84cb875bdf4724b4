#!/usr/bin/env python3
"""Runs the commands of commands.py and keeps what they print: collect.py [NAME...] (none: those that are missing; --all: all of them).

They run in /src, which is made for them from this repository and from what material.py makes, with an environment of its own, so
that no path, name or machine stands in an output that is not everybody's. An output that names one all the same is refused.
Each becomes NAME.txt.xz; its exit code goes into manifest.json, where the lines that must survive are written by hand."""
import json
import lzma
import os
import pathlib
import re
import socket
import subprocess
import sys

import commands
import material

HERE = pathlib.Path(__file__).resolve().parent
SRC = pathlib.Path('/src')
ENV = {'PATH': '/opt/rust/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin', 'HOME': '/src/user', 'LC_ALL': 'C.UTF-8', 'TERM': 'dumb', 'COLUMNS': '120', 'TZ': 'UTC',
       'USER': 'root', 'GIT_CONFIG_NOSYSTEM': '1', 'GOFLAGS': '-mod=mod', 'GOPROXY': 'off', 'RUSTUP_HOME': '/src/user',
       'DEBIAN_FRONTEND': 'noninteractive', 'GIT_AUTHOR_DATE': '2026-01-02T03:04:05Z', 'GIT_COMMITTER_DATE': '2026-01-02T03:04:05Z'}
FOREIGN = re.compile(rb'/root/|/work/|/home/(?!dev)|npmjs\.org|deb\.debian\.org|pypi\.org|crates\.io|proxy\.golang|\b'
                     + re.escape(socket.gethostname().encode()) + rb'[.]', re.I)


def run(case):
    done = subprocess.run(['bash', '-c', case['command']], cwd=SRC / case['in'], env={**ENV, **case.get('env', {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=180)
    return done.stdout, done.returncode


def main():
    wanted = sys.argv[1:]
    path = HERE / 'manifest.json'
    manifest = json.loads(path.read_text()) if path.exists() else []
    rows = {row['name']: row for row in manifest}
    material.make(HERE.parents[2], SRC)
    for case in commands.CASES:
        file = HERE / (case['name'] + '.txt.xz')
        if not (case['name'] in wanted or '--all' in wanted or (not wanted and not file.exists())):
            continue
        try:
            output, code = run(case)
        except subprocess.TimeoutExpired:
            print(f'{case["name"]}: it does not end')
            continue
        found = FOREIGN.search(output)
        if found:
            at = found.start()
            print(f'{case["name"]}: refused: {output[max(0, at - 60):at + 60]!r}')
            continue
        file.write_bytes(lzma.compress(output, preset=9 | lzma.PRESET_EXTREME))
        row = rows.setdefault(case['name'], {'name': case['name'], 'must': []})
        row.update(group=case['group'], tool=case['tool'], command=case['command'], exitCode=code, verdict=case.get('verdict', 'fails' if code else 'passes'))
        print(f'{case["name"]}: exit {code}, {len(output)} bytes, about {len(output) // 4} tokens, {file.stat().st_size} stored')
        order = [case['name'] for case in commands.CASES]
        kept = sorted(rows.values(), key=lambda r: order.index(r['name']) if r['name'] in order else 10**6)
        path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + '\n')


main()
