"""TOML, environment and overrides to one frozen, checked configuration."""

from controller.config.errors import ConfigError
from controller.config.load import load_config, parse_override
from controller.config.sections import JobConfig
from controller.config.text import as_tables, as_toml

__all__ = ["ConfigError", "JobConfig", "as_tables", "as_toml", "load_config", "parse_override"]
