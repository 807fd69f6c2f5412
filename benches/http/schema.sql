-- The tables of runs, their messages and tool calls, with an index for each way they are listed.
CREATE SCHEMA kb;
CREATE TABLE kb.agent_runs (
  id uuid PRIMARY KEY,
  project_id text NOT NULL,
  agent_id text NOT NULL,
  session_id uuid NOT NULL,
  instance_id uuid NOT NULL,
  parent_run_id uuid REFERENCES kb.agent_runs,
  status text NOT NULL,
  step_count int NOT NULL DEFAULT 0,
  max_steps int,
  resumed_from uuid REFERENCES kb.agent_runs,
  summary text,
  error_message text,
  created_at timestamptz NOT NULL,
  completed_at timestamptz
);
CREATE INDEX ON kb.agent_runs (project_id, created_at DESC, id DESC);
CREATE INDEX ON kb.agent_runs (project_id, status, created_at DESC, id DESC);
CREATE INDEX ON kb.agent_runs (project_id, agent_id, created_at DESC, id DESC);
CREATE INDEX ON kb.agent_runs (parent_run_id);
CREATE TABLE kb.agent_run_messages (
  id bigint PRIMARY KEY,
  run_id uuid NOT NULL REFERENCES kb.agent_runs,
  role text NOT NULL,
  content jsonb NOT NULL,
  step_number int NOT NULL,
  created_at timestamptz NOT NULL
);
CREATE INDEX ON kb.agent_run_messages (run_id, step_number, id);
CREATE TABLE kb.agent_run_tool_calls (
  id bigint PRIMARY KEY,
  run_id uuid NOT NULL REFERENCES kb.agent_runs,
  message_id bigint NOT NULL REFERENCES kb.agent_run_messages,
  tool_call_id text,
  tool_name text NOT NULL,
  input jsonb,
  output jsonb,
  status text NOT NULL,
  duration bigint,
  step_number int NOT NULL,
  created_at timestamptz NOT NULL
);
CREATE INDEX ON kb.agent_run_tool_calls (run_id, step_number, id);
CREATE INDEX ON kb.agent_run_tool_calls (run_id, status, step_number, id);
CREATE INDEX ON kb.agent_run_tool_calls (run_id, tool_name, step_number, id);
