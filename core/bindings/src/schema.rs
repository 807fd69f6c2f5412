//! The calls of each object with the JSON schemas of their arguments and answers, for what is generated from them.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::Value;

use crate::{
    agents, archives,
    calls::{Beside, Made, Packed},
    chats, contexts, flows, open_store, orchestrator, recorder, requests, root, run_context, runs,
    sessions, space, streams,
};

/// The name of a field in JavaScript; `is_number` says whether its values are numbers.
pub fn in_javascript(name: &str, is_number: bool) -> String {
    crate::names::time_in_javascript(name, is_number).into_owned()
}

/// How a call answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// With a value.
    Value,
    /// With heads, and contents beside them.
    Packed,
    /// With a value, and contents beside it.
    Beside,
    /// With a value, and the handle of an object.
    Made,
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its name.
    pub method: &'static str,
    /// The schema of its arguments.
    pub arguments: Value,
    /// The schema of its answer.
    pub answer: Value,
    /// How it answers.
    pub form: Form,
}

/// The calls of some objects.
#[derive(Debug)]
pub struct Calls {
    /// The objects, by the names of their types, each with its calls.
    pub objects: Vec<(&'static str, Vec<Call>)>,
    given: SchemaGenerator,
    told: SchemaGenerator,
}

/// Adds the calls of one table.
type Table = fn(&mut Calls);

/// The tables of an open store.
const STORE: [Table; 10] = [
    open_store::schema,
    contexts::schema,
    streams::schema,
    sessions::schema,
    runs::schema,
    flows::schema,
    chats::schema,
    agents::schema,
    orchestrator::schema,
    archives::schema,
];

/// What a call may answer.
pub(crate) trait Described {
    const FORM: Form;
    fn schema(generator: &mut SchemaGenerator) -> Value;
}

impl<T: JsonSchema> Described for T {
    const FORM: Form = Form::Value;

    fn schema(generator: &mut SchemaGenerator) -> Value {
        generator.subschema_for::<T>().to_value()
    }
}

impl<T: JsonSchema> Described for Packed<T> {
    const FORM: Form = Form::Packed;

    fn schema(generator: &mut SchemaGenerator) -> Value {
        generator.subschema_for::<T>().to_value()
    }
}

impl<T: JsonSchema> Described for Beside<T> {
    const FORM: Form = Form::Beside;

    fn schema(generator: &mut SchemaGenerator) -> Value {
        generator.subschema_for::<T>().to_value()
    }
}

impl<T: JsonSchema> Described for Made<T> {
    const FORM: Form = Form::Made;

    fn schema(generator: &mut SchemaGenerator) -> Value {
        generator.subschema_for::<T>().to_value()
    }
}

impl Calls {
    /// Every call that JavaScript can make.
    pub fn all() -> Self {
        let settings = SchemaSettings::draft2020_12();
        let mut calls = Self {
            objects: Vec::new(),
            given: settings.clone().for_deserialize().into_generator(),
            told: settings.for_serialize().into_generator(),
        };
        calls.object("RootCalls", &[root::schema]);
        calls.object("StoreCalls", &STORE);
        calls.object("RecorderCalls", &[recorder::schema]);
        calls.object("RunContextCalls", &[run_context::schema]);
        calls.object(
            "OrchestratorCalls",
            &[orchestrator::calls_of_orchestrator::schema],
        );
        calls.object("RunHandleCalls", &[orchestrator::calls_of_handle::schema]);
        calls.object("RequestCalls", &[requests::schema]);
        calls.object("SpaceCalls", &[space::schema]);
        calls.object("ResumptionCalls", &[chats::calls_of_resumption::schema]);
        calls.object("FlowCalls", &[flows::calls_of_flow::schema]);
        calls.object("PlaybackCalls", &[flows::calls_of_playback::schema]);
        calls.object("ExportCalls", &[archives::calls_of_export::schema]);
        calls.object("ImportCalls", &[archives::calls_of_import::schema]);
        calls
    }

    fn object(&mut self, name: &'static str, tables: &[Table]) {
        self.objects.push((name, Vec::new()));
        for table in tables {
            table(self);
        }
    }

    pub(crate) fn add<Arguments: JsonSchema, Answer: Described>(&mut self, method: &'static str) {
        let arguments = match Arguments::schema_name().as_ref() {
            // Those that are listed in the table have no name of their own.
            "Arguments" => Arguments::json_schema(&mut self.given),
            _ => self.given.subschema_for::<Arguments>(),
        };
        let call = Call {
            method,
            arguments: arguments.to_value(),
            answer: Answer::schema(&mut self.told),
            form: Answer::FORM,
        };
        if let Some((_, calls)) = self.objects.last_mut() {
            calls.push(call);
        }
    }

    /// The types that arguments are made of, by name.
    pub fn given(&self) -> &serde_json::Map<String, Value> {
        self.given.definitions()
    }

    /// The types that answers are made of, by name.
    pub fn told(&self) -> &serde_json::Map<String, Value> {
        self.told.definitions()
    }
}
