"""What is kept between two steps: two tables, a small memory, and the blob they travel in."""

from controller.core.state.cluster import (
    ClusterState,
    StateBlobError,
    bundle_name,
    decode_state,
    encode_state,
    new_state,
)

__all__ = [
    "ClusterState",
    "StateBlobError",
    "bundle_name",
    "decode_state",
    "encode_state",
    "new_state",
]
