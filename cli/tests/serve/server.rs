//! A server of the real binary, and what asks it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, ChildStderr, ExitStatus},
    time::Duration,
};

use serde_json::Value;

use crate::common::{Ends, Place};

/// A server that runs until it is dropped.
pub(crate) struct Server {
    process: Ends,
    /// `http://127.0.0.1:PORT`
    pub(crate) url: String,
    pub(crate) port: u16,
    agent: ureq::Agent,
}

/// What it answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Server {
    /// Serves the place's store, which has to be there, at a port that is free.
    pub(crate) fn start(place: &Place, arguments: &[&str]) -> Self {
        Self::start_with(place, arguments, &[])
    }

    pub(crate) fn start_with(place: &Place, arguments: &[&str], env: &[(&str, &str)]) -> Self {
        let mut all = vec!["serve", "--listen", "127.0.0.1:0"];
        all.extend(arguments);
        let mut command = place.command(&all);
        command
            .env_remove("RUNLOG_READ_TOKEN")
            .env_remove("RUNLOG_WRITE_TOKEN");
        command.envs(env.iter().copied());
        let mut process = Ends(command.spawn().unwrap());
        let mut line = String::new();
        let mut stdout = BufReader::new(process.0.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut said = String::new();
            process
                .0
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut said)
                .unwrap();
            panic!("it doesn't serve: {said}");
        }
        let url = line.trim().trim_end_matches('/').to_owned();
        let port = url.rsplit_once(':').unwrap().1.parse().unwrap();
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(60)))
            .build();
        Self {
            process,
            url,
            port,
            agent: config.into(),
        }
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.process.0
    }

    pub(crate) fn stderr(&mut self) -> ChildStderr {
        self.process.0.stderr.take().unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.get_with(path, &[])
    }

    pub(crate) fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = self.agent.get(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Answer::of(request.call().unwrap())
    }

    pub(crate) fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = self.agent.post(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Answer::of(request.send(body).unwrap())
    }

    /// The answer as JSON, which has to be a success.
    #[track_caller]
    pub(crate) fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }

    /// A connection of one's own.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream
    }

    /// What is answered to these bytes until the connection is closed; `{port}` in them is the server's.
    pub(crate) fn raw(&self, request: &str) -> String {
        let mut stream = self.connect();
        let request = request.replace("{port}", &self.port.to_string());
        // A server that has read enough may say so before it was told everything.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        // A connection that is cut off has said what it had to say.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// What is answered first to these bytes: headers, and what came with them.
    pub(crate) fn begin(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = vec![0; 8192];
        let count = stream.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..count]).into_owned()
    }

    /// Asks the process to end, and waits until it has.
    pub(crate) fn signal(&mut self, signal: nix::sys::signal::Signal) -> ExitStatus {
        self.send(signal);
        self.process.0.wait().unwrap()
    }

    pub(crate) fn send(&self, signal: nix::sys::signal::Signal) {
        let id = nix::unistd::Pid::from_raw(self.process.0.id().try_into().unwrap());
        nix::sys::signal::kill(id, signal).unwrap();
    }
}

impl Answer {
    fn of(mut response: ureq::http::Response<ureq::Body>) -> Self {
        let text = |value: &ureq::http::HeaderValue| {
            String::from_utf8_lossy(value.as_bytes()).into_owned()
        };
        let headers = response.headers().iter();
        let headers = headers
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect();
        let status = response.status().as_u16();
        let body = response
            .body_mut()
            .with_config()
            .limit(1 << 30)
            .read_to_vec()
            .unwrap();
        Self {
            status,
            headers,
            body,
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// It has to be this problem.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        let problem = self.json();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status);
        problem["detail"].as_str().unwrap().to_owned()
    }
}
