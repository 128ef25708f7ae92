"""Python values as TOML, for options."""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ._errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def toml_value(value: Any, where: str) -> str:
    """One value; TypeError naming the option for what TOML has not."""
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:  # a number or truth value of NumPy
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if math.isnan(value):
            return "nan"
        return ("inf" if value > 0 else "-inf") if math.isinf(value) else repr(value)
    if hasattr(value, "__fspath__"):
        return toml_value(value.__fspath__(), where)
    if isinstance(value, Mapping):
        pairs = ((toml_value(str(key), where), toml_value(inside, f"{where}.{key}")) for key, inside in value.items())
        return "{" + ", ".join(f"{key} = {inside}" for key, inside in pairs) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(toml_value(inside, where) for inside in value) + "]"
    raise TypeError(f"option '{where}': expected a number, text, truth value, list or dict, not {type(value).__name__}")


def toml_options(options: Mapping[str, Any]) -> str:
    """Keyword arguments as keys: mel_bins becomes mel-bins. None: as if it were not there."""
    return "".join(f"{key.replace('_', '-')} = {toml_value(dashed(value), key)}\n" for key, value in options.items()
                   if value is not None)


def toml_table(text: str) -> dict[str, Any]:
    """What TOML says."""
    return tomllib.loads(text)


def toml_with(options: str, settings: Mapping[str, Any], where: str) -> str:
    """Options that are TOML already, with keyword arguments in place of those that they name too."""
    try:
        given = toml_table(options)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where}: expected TOML, such as 'kind = \"mfcc\"', or the same by name, kind=\"mfcc\": "
                         f"{error}") from None
    named = {key.replace("_", "-") for key, value in settings.items() if value is not None}
    return toml_options({**{key: value for key, value in given.items() if key not in named}, **settings})


def dashed(value: Any) -> Any:
    """The same with dashes in the keys of nested options."""
    if isinstance(value, Mapping):
        return {str(key).replace("_", "-"): dashed(inside) for key, inside in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [dashed(inside) for inside in value]
    return value
