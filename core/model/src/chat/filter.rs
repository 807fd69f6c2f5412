//! [`MessageFilter`]: the filter of a list of messages.

use super::{ChatMessage, ChatRole};

/// Which messages of a chat to get.
///
/// ```
/// use runlog_model::MessageFilter;
/// let filter: MessageFilter = serde_json::from_str(r#"{"requestId":"req_1","limit":10}"#).unwrap();
/// assert_eq!(filter, MessageFilter { request_id: Some("req_1".into()), limit: 10, ..MessageFilter::default() });
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct MessageFilter {
    /// Only those of this request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Only those from this side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<ChatRole>,
    /// Only those of this block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_id: Option<String>,
    /// Only those of this thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// Only those of this type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub message_type: Option<String>,
    /// The maximum number of messages; 0 is all.
    pub limit: usize,
    /// How many to skip first.
    pub offset: usize,
}

impl MessageFilter {
    /// Whether it admits a message.
    pub fn admits(&self, message: &ChatMessage) -> bool {
        let is =
            |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        is(&self.request_id, &message.request_id)
            && is(&self.block_id, &message.block_id)
            && is(&self.thread_id, &message.thread_id)
            && self.role.is_none_or(|role| message.role == role)
            && self
                .message_type
                .as_ref()
                .is_none_or(|wanted| message.message_type == *wanted)
    }

    /// Whether it limits a list to fewer than all messages.
    pub fn is_narrow(&self) -> bool {
        let texts = [
            &self.request_id,
            &self.block_id,
            &self.thread_id,
            &self.message_type,
        ];
        self.role.is_some() || texts.into_iter().any(Option::is_some)
    }
}
