# SPDX-License-Identifier: Apache-2.0
"""The ephemeral container of k8s/README.md: the command there, and what it adds to a pod.

kubectl_test.py compares container() with what kubectl really sends; the pod tests run it.
"""

import json
import os
import re
import shlex

import images

SOURCE = os.environ["PILLION_SOURCE"]
FOLDER = os.path.join(SOURCE, "k8s")


def command():
    """The words of the `kubectl debug` command in k8s/README.md, which is run in the root of the tree."""
    with open(os.path.join(FOLDER, "README.md"), encoding="utf-8") as file:
        [text] = re.findall(r"^ +(kubectl debug (?:.*\\\n)*.*)$", file.read(), re.MULTILINE)
    return shlex.split(text.replace("\\\n", " "))


def container():
    words = command()
    with open(os.path.join(FOLDER, "debug-profile.json"), encoding="utf-8") as file:
        profile = json.load(file)
    return {
        "name": "pillion",
        "image": images.PILLION,
        "targetContainerName": "app",
        "args": words[words.index("--") + 1 :],
        **profile,
    }
