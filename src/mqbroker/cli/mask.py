"""``mqbroker mask``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from mqbroker.cli.options import JSON, instance_option, verbose_option
from mqbroker.cli.output import print_json
from mqbroker.cli.status import BadUsage, CommandError


@click.command(epilog="Example: mqbroker mask --key my-codec-key secret")
@click.argument("password")
@click.option("--hash", "hashed", is_flag=True, help="Print a hash that cannot be reversed, for artemis-users.properties only.")
@click.option("--key", help="Key of the codec. Default: ARTEMIS_DEFAULT_SENSITIVE_STRING_CODEC_KEY, otherwise the well-known default key.")
@click.option("--password-codec", is_flag=True, help="Take the key of the codec from <password-codec> in the broker.xml of the instance.")
@instance_option
@verbose_option
@JSON
def mask(password: str, hashed: bool, key: str | None, password_codec: bool, instance: Path | None, verbose: bool, as_json: bool) -> None:
    """Print a password masked as ENC(…), for broker.xml and other configuration files, or hashed, for the users file.

    Everyone who knows the key can recover a masked password: masking protects from a casual glance, not from a thief.
    """
    from mqbroker.config import masking

    if hashed:
        if key is not None or password_codec:
            raise BadUsage("a hash has no key: use either --hash, or --key or --password-codec")
        result = masking.unwrap(masking.hash_password(password, os.urandom(masking.SALT_SIZE))) or ""
    else:
        try:
            chosen = key or masking.codec_key(_codec_text(instance) if password_codec else None, os.environ.get)
            result = masking.encode_masked(password, chosen)
        except masking.MaskingError as error:
            raise CommandError(str(error)) from error
    if as_json:
        print_json({"result": result, "written": masking.wrap(result)})
        return
    if verbose:
        click.echo("one-way: a hash for the users file" if hashed else "two-way: Blowfish, write it as ENC(…)")
    click.echo(f"result: {result}")


def _codec_text(instance: Path | None) -> str:
    """The text of ``<password-codec>``.  Raises :class:`BadUsage` without an instance or without the element."""
    from lxml import etree

    if instance is None:
        raise BadUsage("--password-codec needs --instance")
    file = instance / "etc" / "broker.xml"
    try:
        tree = etree.parse(str(file), etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False))
    except (OSError, etree.XMLSyntaxError) as error:
        raise BadUsage(f"{file}: {error}") from error
    for element in tree.iter("{*}password-codec"):
        if element.text and element.text.strip():
            return element.text.strip()
    raise BadUsage(f"{file} has no <password-codec>")
