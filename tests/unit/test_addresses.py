"""Whom an address stands for."""

import pytest

from statewright.addresses import name_address


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "20010db800010002::/64"),
        ("2001:db8:1:2::1", "20010db800010002::/64"),
        ("", ""),
    ],
)
def test_addresses_of_one_site_are_one_source(address: str, name: str):
    assert name_address(address) == name
