"""Records per second that the embedded log takes, by writers and by durability.

    python -m bench.transport_append [--records 100000] [--batch 1000] [--bytes 200] [--json]

Each run appends records in batches to a fresh file; with several writers, each is a process of
its own and the time is that of the slowest, start-up left out.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

from bench.report import Table, spread
from controller.transport.embedded import EmbeddedLog
from controller.transport.port import OutRecord


def write(path: str, durability: str, args: argparse.Namespace, writer: int, gate: Barrier) -> None:
    """One writer's share."""
    log = EmbeddedLog(path, durability=durability)
    value = b"x" * args.bytes
    share = args.records // args.writers_now
    gate.wait()
    for start in range(0, share, args.batch):
        log.append(
            [OutRecord("t", f"c/{writer}-{i}", value) for i in range(start, start + args.batch)]
        )
    gate.wait()
    log.close()


def one_run(durability: str, args: argparse.Namespace, writers: int) -> float:
    """Records per second of one run."""
    args.writers_now = writers
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "log.db")
        EmbeddedLog(path).create_topic("t", 4)
        gate = spawn.Barrier(writers + 1)
        pool = [
            spawn.Process(target=write, args=(path, durability, args, w, gate))
            for w in range(writers)
        ]
        for process in pool:
            process.start()
        gate.wait()
        started = time.perf_counter()
        gate.wait()
        elapsed = time.perf_counter() - started
        for process in pool:
            process.join()
    return args.records / elapsed


def main() -> None:
    """Runs the bench and prints its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--bytes", type=int, default=200)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    results = {
        f"{writers} writer(s), durability {durability}": [
            one_run(durability, args, writers) for _ in range(args.runs)
        ]
        for durability in ("process", "power")
        for writers in (1, 4)
    }
    if args.json:
        print(json.dumps({name: spread(rates) for name, rates in results.items()}))
        return
    table = Table(f"appends of {args.bytes} bytes in batches of {args.batch}", "records/s")
    for name, rates in results.items():
        table.row(name, rates)
    table.show()


if __name__ == "__main__":
    main()
