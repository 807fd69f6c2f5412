//! [`ResultForm`]: the forms in which providers take the results of tool calls.

use super::{
    calls::ToolStyle,
    envelope::{Envelope, Item},
    results::FUNCTION_RESPONSE,
};
use crate::{RawJson, Result, Role};

/// The form of a tool's result: the provider of a call takes its own alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResultForm {
    /// A message of role `tool` that names the call, as OpenAI, Mistral, Cohere and Ollama take it, or one of role `function`.
    ToolMessage,
    /// A block of a user's message, as Anthropic takes it.
    ToolResultBlock,
    /// A part of a message of role `tool`, as the Vercel AI SDK takes it.
    ToolResultPart,
    /// A part of a content of the user's, as Gemini takes it.
    FunctionResponse,
    /// A block of a user's message, as Bedrock's Converse takes it.
    ConverseBlock,
    /// An item of OpenAI's Responses.
    OutputItem,
    /// An item of OpenAI's Responses, for a custom tool.
    CustomOutputItem,
}

impl ResultForm {
    /// What it is, with its article.
    pub fn name(self) -> &'static str {
        match self {
            Self::ToolMessage => "a message of role tool with a tool_call_id",
            Self::ToolResultBlock => "a tool_result block",
            Self::ToolResultPart => "a tool-result part",
            Self::FunctionResponse => "a functionResponse part",
            Self::ConverseBlock => "a toolResult block",
            Self::OutputItem => "an item function_call_output",
            Self::CustomOutputItem => "an item custom_tool_call_output",
        }
    }

    /// The forms of the results that a message carries, each once; none for a message without results, and for what is no message.
    pub fn all_in(message: &RawJson) -> Vec<Self> {
        let Ok(envelope) = Envelope::of(message) else {
            return Vec::new();
        };
        match envelope.item {
            Some(Item::FunctionCallOutput) => return vec![Self::OutputItem],
            Some(Item::CustomCallOutput) => return vec![Self::CustomOutputItem],
            Some(_) => return Vec::new(),
            None => {}
        }
        let of_role = |role| match role {
            Role::Tool => envelope.forms_of_tool(),
            Role::User => envelope.forms_of_user(),
            Role::System | Role::Assistant => Ok(Vec::new()),
        };
        envelope.role().and_then(of_role).unwrap_or_default()
    }
}

impl ToolStyle {
    /// The form in which the provider takes the result of such a call.
    pub fn result_form(self) -> ResultForm {
        match self {
            Self::OpenAi | Self::OpenAiCamel | Self::Function => ResultForm::ToolMessage,
            Self::Anthropic => ResultForm::ToolResultBlock,
            Self::AiSdk | Self::AiSdk4 => ResultForm::ToolResultPart,
            Self::OpenAiResponses => ResultForm::OutputItem,
            Self::OpenAiResponsesCustom => ResultForm::CustomOutputItem,
            Self::Gemini => ResultForm::FunctionResponse,
            Self::Bedrock => ResultForm::ConverseBlock,
        }
    }
}

impl Envelope<'_> {
    fn forms_of_tool(&self) -> Result<Vec<ResultForm>> {
        let mut forms = Vec::new();
        self.each_part(FUNCTION_RESPONSE, |_| {
            add(&mut forms, ResultForm::FunctionResponse)
        })?;
        self.each_block("tool-result", |_| {
            add(&mut forms, ResultForm::ToolResultPart)
        })?;
        let names_call = [self.tool_call_id, self.tool_call_ids]
            .into_iter()
            .flatten()
            .any(|raw| raw != "null");
        if names_call || forms.is_empty() {
            add(&mut forms, ResultForm::ToolMessage)?;
        }
        Ok(forms)
    }

    fn forms_of_user(&self) -> Result<Vec<ResultForm>> {
        let mut forms = Vec::new();
        self.each_part(FUNCTION_RESPONSE, |_| {
            add(&mut forms, ResultForm::FunctionResponse)
        })?;
        self.each_untyped_block("toolResult", |_| add(&mut forms, ResultForm::ConverseBlock))?;
        self.each_block("tool_result", |_| {
            add(&mut forms, ResultForm::ToolResultBlock)
        })?;
        Ok(forms)
    }
}

fn add(forms: &mut Vec<ResultForm>, form: ResultForm) -> Result<()> {
    if !forms.contains(&form) {
        forms.push(form);
    }
    Ok(())
}
