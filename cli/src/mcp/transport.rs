//! [`Lines`]: the messages of a client on a stream of lines. Every one of them is answered.
//!
//! The transport of the protocol's library drops messages that it can't read, and the client waits for an answer that
//! never comes. This one answers with the error defined by JSON-RPC, with the request's id if that can be found.
//!
//! The library also drops one of two answers with the same id. The protocol says that an id is never used again; here it may
//! be once it is answered, and a request with the id of one that has no answer yet is refused. The error has that id: who
//! looks answers up by the id waits for that of the later request.
//!
//! Two errors of the library don't say what to do, and are written here in other words: that of a request before the
//! conversation has begun, and that of a method which isn't there.

use std::{
    collections::HashSet,
    io,
    sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError},
    time::Duration,
};

use rmcp::{
    RoleServer,
    model::{ClientRequest, ErrorCode, GetMeta, JsonRpcMessage, ProtocolVersion, RequestId},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::Mutex,
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// The longest message: 16 MiB. A longer one is refused, and not held in memory.
const LINE_BYTES_MAX: usize = 16 << 20;
/// The most values of a message, names of fields included. One that is read takes some hundred bytes, however short it is
/// in the message: the protocol's library keeps them several times while it finds out what the message is.
const VALUES_MAX: usize = 100_000;

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const INVALID_PARAMS: i32 = -32602;

/// How long a client that says no more has to read the last refusals.
const REFUSALS_WAIT: Duration = Duration::from_secs(1);

/// Messages, one per line.
pub(crate) struct Lines<R, W> {
    read: BufReader<R>,
    /// The part of the line that was read so far: a read may be cancelled at any time, and continued by the next one.
    line: Vec<u8>,
    /// How long the line is so far.
    length: usize,
    /// Whether the client has begun the conversation.
    has_begun: bool,
    write: Arc<Mutex<W>>,
    /// The ids of the requests that have no answer yet. That of one which the client has cancelled stays: its work may
    /// still end, and would be taken for that of a later one.
    unanswered: StdMutex<HashSet<RequestId>>,
    /// The refusals that are being written.
    refusals: JoinSet<()>,
    /// Cancelled at the end of the client's messages.
    disconnected: CancellationToken,
}

/// Why a message is refused.
struct Refusal {
    /// The request's own; also one that the library can't read, such as a large number.
    id: Option<Value>,
    code: i32,
    message: String,
}

impl<R: AsyncRead, W> Lines<R, W> {
    /// Messages of these two streams.
    pub(crate) fn new(read: R, write: W, disconnected: CancellationToken) -> Self {
        let write = Arc::new(Mutex::new(write));
        Self {
            read: BufReader::new(read),
            line: Vec::new(),
            length: 0,
            has_begun: false,
            write,
            unanswered: StdMutex::default(),
            refusals: JoinSet::new(),
            disconnected,
        }
    }

    fn unanswered(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.unanswered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: AsyncRead + Send + Unpin, W> Lines<R, W> {
    /// Reads up to the end of a line, which the end of the stream is too; `None` where no line is left. Cancel-safe.
    async fn next_line(&mut self) -> io::Result<Option<()>> {
        loop {
            let available = self.read.fill_buf().await?;
            if available.is_empty() {
                if self.line.is_empty() {
                    return Ok(None);
                }
                // As if the newline were there, which counts.
                self.length += 1;
                return Ok(Some(()));
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            let kept = taken.min((LINE_BYTES_MAX + 1).saturating_sub(self.line.len()));
            self.line.extend_from_slice(&available[..kept]);
            self.length += taken;
            self.read.consume(taken);
            if end.is_some() {
                return Ok(Some(()));
            }
        }
    }

    fn read_message(&self) -> Result<Option<RxJsonRpcMessage<RoleServer>>, Refusal> {
        if self.length > LINE_BYTES_MAX + 1 {
            return Err(Refusal {
                id: leading_id(&self.line),
                code: INVALID_REQUEST,
                message: format!(
                    "the message has {} bytes, at most {LINE_BYTES_MAX} are allowed",
                    self.length - 1
                ),
            });
        }
        if self.line.trim_ascii().is_empty() {
            return Ok(None);
        }
        let values = values_at_most(&self.line);
        if values > VALUES_MAX {
            return Err(Refusal {
                id: leading_id(&self.line),
                code: INVALID_REQUEST,
                message: format!(
                    "the message has up to {values} values and names, at most {VALUES_MAX} are allowed"
                ),
            });
        }
        let value: Value = serde_json::from_slice(&self.line).map_err(|error| Refusal {
            id: leading_id(&self.line),
            code: PARSE_ERROR,
            message: format!("the message is not valid JSON: {error}"),
        })?;
        let id = value.get("id").filter(|id| is_id(id)).cloned();
        let method = value
            .get("method")
            .and_then(Value::as_str)
            .map(str::to_owned);
        match (RxJsonRpcMessage::<RoleServer>::deserialize(value), method) {
            // A known method whose parameters the library couldn't read.
            (Ok(JsonRpcMessage::Request(request)), Some(method))
                if matches!(request.request, ClientRequest::CustomRequest(_))
                    && is_known(&method) =>
            {
                let message = format!("the params of {method} are not what the protocol says");
                Err(Refusal {
                    id,
                    code: INVALID_PARAMS,
                    message,
                })
            }
            // The library would ask for fields of newer clients.
            (Ok(JsonRpcMessage::Request(request)), Some(method))
                if !self.has_begun && !may_come_first(&request.request) =>
            {
                Err(Refusal {
                    id,
                    code: INVALID_REQUEST,
                    message: format!("{method} came before initialize; send initialize first"),
                })
            }
            (Ok(JsonRpcMessage::Request(request)), _)
                if !self.unanswered().insert(request.id.clone()) =>
            {
                let message =
                    "the id is that of a request which has no answer yet; take another one";
                Err(Refusal {
                    id,
                    code: INVALID_REQUEST,
                    message: message.to_owned(),
                })
            }
            (Ok(message), _) => Ok(Some(message)),
            (Err(error), _) => Err(Refusal {
                id,
                code: INVALID_REQUEST,
                message: format!("the message is no request: {error}"),
            }),
        }
    }

    /// Answers with an error, in a task of its own, because the receiving future may be dropped in the middle of a line.
    fn refuse(&mut self, refusal: Refusal)
    where
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let Refusal { id, code, message } = refusal;
        let answer =
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
        let write = Arc::clone(&self.write);
        while self.refusals.try_join_next().is_some() {}
        // A disconnected client is detected by the next read.
        self.refusals
            .spawn(async move { drop(write_line(&write, &answer).await) });
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        mut item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answered = match &item {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if let Some(id) = answered {
            self.unanswered().remove(id);
        }
        // The library's message is the method's name alone.
        if let JsonRpcMessage::Error(error) = &mut item
            && error.error.code == ErrorCode::METHOD_NOT_FOUND
        {
            let method = &error.error.message;
            let message = format!(
                "this server has no method {method:?}; it has tools, which tools/list lists and tools/call calls"
            );
            error.error.message = message.into();
        }
        let write = Arc::clone(&self.write);
        async move { write_line(&write, &item).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let Ok(Some(())) = self.next_line().await else {
                self.disconnected.cancel();
                // The process may end before they are written; a client that doesn't read doesn't hold it up.
                let written = async { while self.refusals.join_next().await.is_some() {} };
                let _ = timeout(REFUSALS_WAIT, written).await;
                return None;
            };
            let message = self.read_message();
            self.line.clear();
            self.line.shrink_to(64 << 10);
            self.length = 0;
            match message {
                Ok(Some(message)) => {
                    self.has_begun |= begins(&message);
                    // The library gives a client up whose notification or answer comes before that.
                    if self.has_begun || matches!(message, JsonRpcMessage::Request(_)) {
                        return Some(message);
                    }
                }
                Ok(None) => {}
                Err(refusal) => self.refuse(refusal),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.write.lock().await.flush().await
    }
}

async fn write_line<W: AsyncWrite + Send + Unpin>(
    write: &Mutex<W>,
    message: &impl serde::Serialize,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut write = write.lock().await;
    write.write_all(&line).await?;
    write.flush().await
}

/// How many values a JSON text can have at most, names of fields included: each but the first comes after one of these
/// characters. It is found without reading them, for that takes the memory.
fn values_at_most(json: &[u8]) -> usize {
    let (mut values, mut is_text, mut is_escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b',' | b':' | b'[' | b'{' if !is_text => values += 1,
            _ => {}
        }
    }
    values
}

/// Whether a value can be the id of a request.
fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_number()
}

/// Whether a message begins the conversation: it initializes it, or has what newer clients say in each request instead. A look
/// at what the server can do leaves open which it will be.
fn begins(message: &RxJsonRpcMessage<RoleServer>) -> bool {
    let JsonRpcMessage::Request(request) = message else {
        return false;
    };
    let meta = request.request.get_meta();
    match &request.request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        _ => meta
            .missing_required_keys(&ProtocolVersion::V_2026_07_28)
            .is_empty(),
    }
}

/// Whether a request may come before the conversation has begun: a ping, a look at what the server can do, or what begins it.
fn may_come_first(request: &ClientRequest) -> bool {
    matches!(
        request,
        ClientRequest::InitializeRequest(_)
            | ClientRequest::PingRequest(_)
            | ClientRequest::DiscoverRequest(_)
    ) || request.get_meta().protocol_version().is_some()
}

/// Whether this server has a method.
fn is_known(method: &str) -> bool {
    ["initialize", "ping", "tools/list", "tools/call"].contains(&method)
}

/// The id of a request that can't be parsed, if it comes before the invalid part.
fn leading_id(line: &[u8]) -> Option<Value> {
    let mut rest = line.trim_ascii_start().strip_prefix(b"{")?;
    loop {
        let (key, after) = value::<String>(rest)?;
        let after = after.trim_ascii_start().strip_prefix(b":")?;
        if key == "id" {
            return value(after).map(|(id, _)| id).filter(is_id);
        }
        let (_, after) = value::<serde::de::IgnoredAny>(after)?;
        rest = after.trim_ascii_start().strip_prefix(b",")?;
    }
}

/// The value at the beginning of `bytes`, and the rest.
fn value<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<(T, &'a [u8])> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<T>();
    let value = values.next()?.ok()?;
    Some((value, &bytes[values.byte_offset()..]))
}
