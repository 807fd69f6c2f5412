"""A client of Runlog's agent protocol (docs/agent-protocol.md) in plain Python: nothing to install.

    runlog run --agents agents.json -- python3 runlog_agent.py

As a module it is `Agent`; run by itself, it is an agent without a model that plays the parts of a lead and of its workers.
"""

import json
import sys
import time


class Refused(Exception):
    """A line was refused: nothing of it was recorded. `code` says why, as the protocol names it."""

    def __init__(self, line):
        super().__init__(line.get("message", ""))
        self.code = line.get("code")


class Stopped(Exception):
    """Runlog wants the agent to end; `reason` is `interrupted` or `step_budget`."""

    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason


class Agent:
    """One run of an agent: its task and context, what it records, and the agents it spawns.

    Each call returns once what it recorded is durable. Standard output is the protocol's: print to standard error.
    """

    def __init__(self, lines=sys.stdin.buffer, out=sys.stdout.buffer):
        self._lines, self._out, self._asked = lines, out, 0
        self.messages = []
        self.stop_reason = None
        self.hello = self._read()
        if self.hello.get("type") != "hello" or self.hello.get("protocol") != 1:
            raise RuntimeError(f"this agent speaks version 1 of the protocol, not {self.hello}")
        while True:
            line = self._read()
            if line["type"] == "message":
                self.messages.append(line["message"])
            elif line["type"] == "ready":
                # Calls that the context has no result for: answer these before anything else.
                self.open_calls = line["dangling_tool_calls"]
                break
        self.task, self.tools = self.hello.get("task"), self.hello.get("tools")
        self.run_id, self.started = self.hello.get("run_id"), self.hello.get("started")

    def message(self, role, content, **more):
        """Records a message in a provider's own form, such as `tool_calls=[…]`, and adds it to `messages`."""
        return self.record({"role": role, "content": content, **more})

    def record(self, message, **more):
        """Records a whole message; `key="…"` has it recorded once, however often it is tried."""
        told = self._ask({"type": "message", "message": message, **more})
        self.messages.append(message)
        return told

    def tool(self, call_id, work):
        """Does the work of a tool call, and records what it gave, or its error, and how long it took."""
        began, failed = time.monotonic(), False
        try:
            gave = work()
        except Exception as error:  # The model is told of whatever went wrong.
            gave, failed = f"{type(error).__name__}: {error}", True
        content = gave if isinstance(gave, str) else json.dumps(gave, ensure_ascii=False)
        took = round((time.monotonic() - began) * 1000)
        self.record({"role": "tool", "tool_call_id": call_id, "content": content}, is_error=failed, duration_ms=took)
        return gave

    def step(self):
        """Begins the next step, and says how many are left; `None` without a limit."""
        return self._ask({"type": "step"})["steps_left"]

    def describe(self, usage=None, metadata=None):
        """Says what the run took, such as tokens and their cost, and anything else; what is left out stays as it was."""
        told = {"usage": usage, "metadata": metadata}
        self._ask({"type": "describe", **{name: value for name, value in told.items() if value is not None}})

    def available_agents(self):
        """The agents that can be spawned, each with `name`, `description`, `tools`, `flow_type` and `visibility`."""
        return self._ask({"type": "list_available_agents"})["agents"]

    def spawn(self, requests, call_id=None):
        """Spawns agents in parallel and waits: `{"agent_name", "task"}` each, and perhaps `timeout`, `max_steps`,
        `resume_run_id`. Gives a result for each, in order; those that were refused alone have an `error`."""
        line = {"type": "spawn_agents", "requests": requests}
        return self._ask(line if call_id is None else {**line, "tool_call_id": call_id})["results"]

    def done(self, summary=None, pause_reason=None, error_message=None):
        """Says that nothing follows: the run is completed, or paused, or has failed."""
        fields = {"summary": summary, "pause_reason": pause_reason, "error_message": error_message}
        self._write({"type": "done", **{name: value for name, value in fields.items() if value is not None}})
        while self._lines.readline():  # Up to the end, so that nothing breaks while Runlog still writes.
            pass

    def _ask(self, line):
        if self.stop_reason:
            raise Stopped(self.stop_reason)
        self._asked += 1
        self._write({**line, "id": self._asked})
        while True:
            answer = self._read()
            if answer["type"] == "stop":
                self.stop_reason = answer["reason"]
                if self.stop_reason == "step_budget":
                    raise Stopped(self.stop_reason)
            elif answer.get("id") == self._asked:
                if answer["type"] == "error":
                    if answer.get("code") == "step_budget":
                        raise Stopped("step_budget")
                    raise Refused(answer)
                return answer

    def _write(self, line):
        self._out.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        self._out.flush()

    def _read(self):
        line = self._lines.readline()
        if not line:
            raise EOFError("Runlog is gone; what it acknowledged is there")
        return json.loads(line)


def lead(agent):
    """Spawns every agent there is, and puts together what they say."""
    call = {"id": "call_1", "type": "function", "function": {"name": "spawn_agents", "arguments": "{}"}}
    agent.message("assistant", None, tool_calls=[call])
    names = [it["name"] for it in agent.available_agents() if it["name"] != agent.hello["agent"]]
    results = agent.spawn([{"agent_name": name, "task": f"{agent.task} ({name})"} for name in names], "call_1")
    agent.step()
    told = "; ".join(f"{it['agent_name']}: {it['status']}, {it.get('summary') or it.get('error')}" for it in results)
    agent.message("assistant", told)
    agent.done(summary=told)


def worker(agent):
    """Calls a tool that fails, and one that doesn't."""
    calls = [{"id": f"c{n}", "type": "function", "function": {"name": "divide", "arguments": str(n)}} for n in (0, 4)]
    agent.message("assistant", None, tool_calls=calls)
    gave = [agent.tool(call["id"], lambda: 20 / int(call["function"]["arguments"])) for call in calls]
    agent.done(summary=f"{agent.task} {gave}")


if __name__ == "__main__":
    this = Agent()
    (worker if this.hello.get("parent_run_id") else lead)(this)
