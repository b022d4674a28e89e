"""Policies of a cluster as operators write them: isolation, anti-affinity, failure domains.

They travel whole in a `policies` command and stay in the core's memory as they came. All sizes are
bounded; patterns are judged by `problem_of`, by the CLI before it sends and by the core again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec

LIST_MAX = 1_000  # policies, groups, domains, and names or patterns in one of them
TEXT_MAX = 256  # characters of a name or a pattern
REPEATS_MAX = 4  # of `*`, `+` and `{`: a pattern must not take long, whatever it meets

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=TEXT_MAX)]
Texts = Annotated[tuple[Text, ...], msgspec.Meta(max_length=LIST_MAX)]
SomeTexts = Annotated[tuple[Text, ...], msgspec.Meta(min_length=1, max_length=LIST_MAX)]
Count = Annotated[int, msgspec.Meta(ge=0, le=10_000)]


class IsolationPolicy(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Namespaces that are kept on some brokers; all lists hold regular expressions."""

    name: Text
    namespaces: SomeTexts
    primary: SomeTexts  # brokers that serve nobody else
    secondary: Texts = ()  # brokers that help out
    minLimit: Count = 1  # secondaries join while fewer primaries can take a bundle


class AntiAffinityGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Namespaces whose bundles are kept apart."""

    group: Text
    namespaces: SomeTexts  # names, no patterns


class FailureDomain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Brokers that may fail together: a rack, a zone."""

    name: Text
    brokers: SomeTexts  # broker ids, no patterns


class PolicySet(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """All policies of a cluster."""

    isolation: Annotated[tuple[IsolationPolicy, ...], msgspec.Meta(max_length=LIST_MAX)] = ()
    antiAffinity: Annotated[tuple[AntiAffinityGroup, ...], msgspec.Meta(max_length=LIST_MAX)] = ()
    failureDomains: Annotated[tuple[FailureDomain, ...], msgspec.Meta(max_length=LIST_MAX)] = ()


def problem_of(policies: PolicySet) -> str | None:
    """What is wrong with policies, in words; None if they can be used."""
    groups, domains = policies.antiAffinity, policies.failureDomains
    for twice in (
        _twice("isolation policy", (one.name for one in policies.isolation)),
        _twice("anti-affinity group", (one.group for one in groups)),
        _twice("namespace of anti-affinity", (name for one in groups for name in one.namespaces)),
        _twice("failure domain", (one.name for one in domains)),
        _twice("broker of failure domains", (name for one in domains for name in one.brokers)),
    ):
        if twice is not None:
            return twice
    for where, pattern in _patterns(policies):
        wrong = _wrong_pattern(pattern)
        if wrong is not None:
            return f"isolation policy {where}: {pattern!r} {wrong}"
    return None


def _twice(what: str, names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return f"{what} {name!r} is given twice"
        seen.add(name)
    return None


def _patterns(policies: PolicySet) -> Iterator[tuple[str, str]]:
    for one in policies.isolation:
        for pattern in (*one.namespaces, *one.primary, *one.secondary):
            yield one.name, pattern


def _wrong_pattern(pattern: str) -> str | None:
    """Why a pattern is refused: it does not compile, or could take very long to match."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"is no regular expression: {error}"
    bare = re.sub(r"\[\^?\]?[^\]]*\]", "c", re.sub(r"\\.", "c", pattern))
    if re.search(r"\)[*+{]", bare):
        return "repeats a group; write it without"
    if len(re.findall(r"[*+{]", bare)) > REPEATS_MAX:
        return f"has more than {REPEATS_MAX} of * + {{"
    return None
