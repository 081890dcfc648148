# SPDX-License-Identifier: Apache-2.0
"""COD425: the ranks meet at a port that the service does not open."""

from __future__ import annotations

from keepstep.model.facts import KubernetesObject
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, listing, rule
from keepstep.rules.code.settings._pods import pods
from keepstep.rules.code.settings._settings import all_settings


@rule(
    id="COD425", cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL, needs=(KubernetesObject,), confidence=Confidence.SUPPORTED
)
def port_not_in_service(seen: EvidenceSet) -> Findings:
    """MASTER_ADDR is a service, and MASTER_PORT is none of its ports.

    ## What it looks like
    ```yaml
    apiVersion: v1
    kind: Service
    metadata: {name: head}
    spec:
      selector: {app: train, rank: "0"}
      ports:
        - {port: 23456}
    ---
    apiVersion: batch/v1
    kind: Job
    metadata: {name: train-1}
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: main
              image: train:1
              command: [python, train.py]
              env:
                - {name: MASTER_ADDR, value: head}
                - {name: MASTER_PORT, value: "29500"}
                - {name: RANK, value: "1"}
    ```

    ## Why it happens
    A service with an address of its own passes on only the ports that it lists. (A headless one passes on nothing: the
    name is that of the pod.)

    ## How we know
    Address and port are written out, and the service of that name, beside the pod, is not headless.

    ## What to do
    ```yaml
    apiVersion: v1
    kind: Service
    metadata: {name: head}
    spec:
      selector: {app: train, rank: "0"}
      ports:
        - {port: 29500}
    ---
    apiVersion: batch/v1
    kind: Job
    metadata: {name: train-1}
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: main
              image: train:1
              command: [python, train.py]
              env:
                - {name: MASTER_ADDR, value: head}
                - {name: MASTER_PORT, value: "29500"}
                - {name: RANK, value: "1"}
    ```

    ## When this is wrong
    When a patch adds the port.
    """
    services = [each for each in all_settings(seen, KubernetesObject) if each.text("kind") == "Service"]
    for group in pods(seen):
        for container in group.containers():
            address, port = container.env("MASTER_ADDR"), container.env("MASTER_PORT")
            if address is None or port is None:
                continue
            host, wanted = group.file.text(*address).partition(".")[0], group.file.text(*port)
            near = [each for each in services if each.source == group.file.source]
            meant = [each for each in near if each.text("metadata", "name") == host]
            if len(meant) != 1 or meant[0].text("spec", "clusterIP") == "None":
                continue
            service = meant[0]
            ports = [service.text("spec", "ports", number, "port") for number in service.keys("spec", "ports")]
            if ports and wanted.isdecimal() and all(each.isdecimal() for each in ports) and wanted not in ports:
                yield Found(
                    title=f"the service {host} does not open port {wanted}",
                    because=f"it passes on {listing(ports)} only, so no rank reaches the first one",
                    evidence=(group.file.at(*port), service.at("spec", "ports")),
                    fixes=(Fix(do=f"add port {wanted} to the service, or make it headless: `clusterIP: None`"),),
                )
