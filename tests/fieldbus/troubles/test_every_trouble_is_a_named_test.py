"""The troubles that people report in public, and the tests of each. A test that is renamed has to be renamed here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]
HERE = "fieldbus/troubles"
OPCUA = "fieldbus/opcua"
TROUBLES: dict[str, tuple[str, ...]] = {
    "bad status shipped with the last good value": (
        f"{HERE}/test_bad_status_with_the_last_good_value.py",
        f"{OPCUA}/test_client.py::test_bad_quality_has_no_value_and_an_array_is_no_scalar",
        "sitsedge/bridge/test_process.py::test_bad_quality_arrives_as_bad_quality_without_a_number",
    ),
    "node unknown after server restart": (
        f"{HERE}/test_node_unknown_after_server_restart.py",
        f"{OPCUA}/test_client.py::test_after_a_restart_nodes_are_resolved_anew_and_subscriptions_go_on",
        f"{OPCUA}/test_client.py::test_a_node_or_namespace_lost_in_a_restart_does_not_hold_up_the_others",
        f"{OPCUA}/test_subscription.py::test_a_node_that_goes_and_comes_back_is_taken_up_without_a_reconnect",
        "sitsedge/bridge/test_process.py::test_a_tag_lost_in_a_restart_degrades_and_is_named",
    ),
    "one dead node blocking all reconnects": (
        f"{HERE}/test_one_dead_node_blocking_all_reconnects.py",
        f"{OPCUA}/test_subscription.py::test_a_dead_server_and_a_refused_item_hold_up_nobody",
        "sitsedge/bridge/test_vendor.py::test_a_hanging_and_a_dead_station_hold_up_no_sample_of_another",
    ),
    "UInt32 sequence rollover": (
        f"{HERE}/test_sequence_rollover.py",
        f"{OPCUA}/test_publishing.py::test_the_sequence_rolls_over_from_the_largest_number_to_one",
    ),
    "keep-alive masking loss": (
        f"{HERE}/test_keep_alive_masking_loss.py",
        f"{OPCUA}/test_publishing.py::test_a_keep_alive_does_not_mask_a_loss",
    ),
    "clock skew failing at token renewal": (f"{OPCUA}/test_channel.py::test_clock_skew_at_token_renewal",),
    "expired certificates": (
        f"{OPCUA}/test_client.py::test_our_own_expired_certificate_is_named_before_anything_is_sent",
        f"{OPCUA}/test_client.py::test_the_server_refuses_an_expired_certificate_even_if_listed",
        f"{OPCUA}/test_renewal.py::test_a_current_certificate_that_has_ended_gives_way_to_the_next",
    ),
    "queue overflow bit": (
        f"{HERE}/test_queue_overflow_bit.py",
        f"{OPCUA}/test_subscription.py::test_overflow_bits_and_values_nobody_took_are_counted_by_tag",
    ),
    "NaN in JSON": (f"{HERE}/test_nan_in_json.py",),
    "PLC clock reset to 2000-01-01": (f"{HERE}/test_plc_clock_reset_to_2000.py",),
    "local time against UTC": (f"{HERE}/test_local_time_against_utc.py",),
    "late reply matched to the next request": (
        f"{HERE}/test_late_reply_matched_to_the_next_request.py",
        "sitsedge/bridge/test_vendor.py::test_a_late_reply_meets_no_other_request_and_an_old_value_no_sample",
    ),
    "quality still Good after the PLC is unplugged": (
        f"{HERE}/test_quality_good_after_the_plc_is_unplugged.py",
        f"{OPCUA}/test_subscription.py::test_values_are_bad_at_once_when_the_server_is_unplugged",
        "sitsedge/bridge/test_vendor.py::test_s7_block_unplugged_stopped_and_back",
    ),
    "lost key frame followed by a delta": (f"{HERE}/test_lost_key_frame_followed_by_a_delta.py",),
    "stale values as a burst after an outage": (
        f"{HERE}/test_plc_clock_reset_to_2000.py::test_a_burst_of_stale_values_after_an_outage_is_refused_whole",
        f"{OPCUA}/test_subscription.py::test_a_stale_burst_is_gated_by_source_time",
        "sitsedge/bridge/test_process.py::test_a_stale_burst_is_counted_and_not_passed_on",
    ),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_the_tests_of_a_trouble_are_there(trouble: str) -> None:
    for place in TROUBLES[trouble]:
        file, _, name = place.partition("::")
        text = (TESTS / file).read_text()
        assert re.search(rf"^(async )?def {name or 'test_'}", text, re.MULTILINE), place


def test_no_test_of_a_trouble_is_forgotten_here() -> None:
    files = {f"{HERE}/{path.name}" for path in (TESTS / HERE).glob("test_*.py")} - {f"{HERE}/{Path(__file__).name}"}
    assert files == {place.partition("::")[0] for places in TROUBLES.values() for place in places if HERE in place}
