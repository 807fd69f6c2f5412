//! [`MessageFilter`]: which messages of a chat are asked for.

use super::ChatRole;

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
    /// At most so many; 0 is all.
    pub limit: usize,
    /// How many to pass over first.
    pub offset: usize,
}
