"""Plays the clients of docker/compose.yaml: asks for owners of a namespace's bundles.

`python lookups.py CONFIG CLUSTER NAMESPACE`. With real brokers the clients' lookups do that;
without any, no bundle would ever be assigned. The made-up load of both its namespaces is for six
brokers, so three serve one of them. What is asked twice does no harm.
"""

from __future__ import annotations

import sys
from contextlib import closing

from controller.config import load_config
from controller.sim.workload import Workload, WorkloadSpec
from controller.transport.place import open_transport
from controller.transport.port import OutRecord
from controller.wire.commands import Assign, encode_command

CHUNK = 32  # requests per append, as if so many clients asked at once


def main(path: str, cluster: str, namespace: str) -> None:
    """Appends one request for each of its bundles to the topic of commands."""
    config = load_config(path)
    key = f"{cluster}/client-lookup"
    requests = [
        OutRecord(
            config.topics.commands,
            key,
            encode_command(Assign(bundle=bundle, requestedBy="client-lookup", who="compose")),
        )
        for bundle in Workload(WorkloadSpec()).bundle_names()
        if bundle.startswith(f"{namespace}/")
    ]
    with closing(open_transport(config.transport)) as log:
        for at in range(0, len(requests), CHUNK):
            log.append(requests[at : at + CHUNK])
    print(f"asked for owners of {len(requests)} bundles", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
