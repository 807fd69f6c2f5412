#!/usr/bin/env python3
"""A client of Runlog's agent protocol (docs/agent-protocol.md) in plain Python: nothing to install.

    runlog run --agents agents.json -- python3 runlog_agent.py

As a module it is `Agent`; run by itself, it is an agent without a model that plays the parts of a lead and of its workers.
"""

import json
import queue
import signal
import sys
import threading
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

    `stop_reason` is set once the agent is to end, and `stopping` with it, an event to wait on. After `interrupted` it has a
    while to record its last words; after `step_budget` nothing is recorded any more. `next_command` gives what is sent to
    the run.
    """

    def __init__(self, lines=None, out=sys.stdout.buffer):
        # Not `sys.stdin`: Python closes that at its end, and aborts where a thread still reads from it.
        self._lines, self._out, self._asked = lines or open(0, "rb", closefd=False), out, 0
        self._answers, self._commands = queue.Queue(), queue.Queue()
        self.messages = []
        self.stop_reason, self.stopping = None, threading.Event()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):  # Sent beside the line; without a handler it would be the end.
                signal.signal(number, lambda *_: self._stop("interrupted"))
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._write({"type": "hello", "protocol": 1, "commands": True})
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
        self._listener.join()  # Up to the end, so that nothing breaks while Runlog still writes.

    def next_command(self, timeout=None):
        """The next command that was sent to the run, such as `{"type": "send", "runId": …, "message": …}`, once there is one;
        `None` when the time in seconds is up, or the agent is to end."""
        began = time.monotonic()
        while not self.stop_reason:
            left = 0.1 if timeout is None else min(0.1, timeout - (time.monotonic() - began))
            if left <= 0:
                break
            try:
                return self._commands.get(timeout=left)
            except queue.Empty:
                pass
        return None

    def _ask(self, line):
        if self.stop_reason == "step_budget":
            raise Stopped(self.stop_reason)
        self._asked += 1
        self._write({**line, "id": self._asked})
        while True:
            answer = self._read()
            if answer.get("id") == self._asked:
                if answer["type"] == "error":
                    if answer.get("code") == "step_budget":
                        self._stop("step_budget")
                        raise Stopped("step_budget")
                    raise Refused(answer)
                return answer

    def _stop(self, reason):
        self.stop_reason = reason
        self.stopping.set()

    def _listen(self):
        for text in iter(self._lines.readline, b""):
            line = json.loads(text)
            if line["type"] == "command":
                self._commands.put(line["command"])
            elif line["type"] == "stop":
                self._stop(line["reason"])
            else:
                self._answers.put(line)
        self._answers.put(None)

    def _write(self, line):
        self._out.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        self._out.flush()

    def _read(self):
        line = self._answers.get()
        if line is None:
            self._answers.put(None)
            raise EOFError("Runlog is gone; what it acknowledged is there")
        return line


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


def listener(agent):
    """Hears what is sent to its run, until that is enough, or it is stopped."""
    heard = []
    agent.message("assistant", "listening")
    while (command := agent.next_command()) and command.get("message") != "enough":
        agent.message("user", command["message"])
        heard.append(command["message"])
    if agent.stop_reason:
        agent.message("assistant", f"stopped: {agent.stop_reason}")
        agent.done(pause_reason=agent.stop_reason)
    else:
        agent.done(summary="heard: " + ", ".join(heard))


if __name__ == "__main__":
    this = Agent()
    this.task = this.task or "look around"
    part = listener if this.task == "listen" else worker if this.hello.get("parent_run_id") else lead
    try:
        part(this)
    except Refused as error:
        this.done(error_message=f"{error.code}: {error}")
