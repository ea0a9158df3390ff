# SPDX-License-Identifier: Apache-2.0
"""What a profile says went wrong."""


def anomalies(profile):
    """{kind: total}"""
    found = {}
    for anomaly in profile["quality"]["anomalies"]:
        found[anomaly["kind"]] = found.get(anomaly["kind"], 0) + anomaly["total"]
    return found


def details(profile, kind):
    return [anomaly["detail"] for anomaly in profile["quality"]["anomalies"] if anomaly["kind"] == kind]
