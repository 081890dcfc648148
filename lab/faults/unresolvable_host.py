"""The address that all ranks were given has a host name that no resolver knows."""

from lab.launch import Run

HOST = "trainer-0.trainer-headless.ml.svc.cluster.local"


def prepare(run: Run) -> None:
    port = run.ports[(run.scenario.strike_ranks or (0,))[0]]
    for env in run.env:
        if run.scenario.framework == "torch":
            env["MASTER_ADDR"] = HOST
        elif run.scenario.framework == "jax":
            env["COORDINATOR_ADDRESS"] = f"{HOST}:{port}"
        else:
            env["TF_CONFIG"] = env["TF_CONFIG"].replace(f"127.0.0.1:{port}", f"{HOST}:{port}")
