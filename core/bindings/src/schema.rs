//! The calls of each object with the JSON schemas of their arguments and answers, for code generation.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::Value;

use crate::answers::{Made, Packed, WithContents};

/// The name of a field in JavaScript.
pub fn in_javascript(name: &str) -> String {
    crate::names::in_javascript(name).into_owned()
}

/// The form of a call's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A value.
    Value,
    /// Heads, with separate contents.
    Packed,
    /// A value, with separate contents.
    Beside,
    /// A value, and the handle of an object.
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
    /// The form of its answer.
    pub form: Form,
}

/// The calls of some objects.
#[derive(Debug)]
pub struct Calls {
    /// The objects, by the names of their types, each with its calls.
    pub objects: Vec<(&'static str, Vec<Call>)>,
    given: SchemaGenerator,
    results: SchemaGenerator,
}

/// A type that a call can return.
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

impl<T: JsonSchema> Described for WithContents<T> {
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
    pub(crate) fn none() -> Self {
        let settings = SchemaSettings::draft2020_12();
        Self {
            objects: Vec::new(),
            given: settings.clone().for_deserialize().into_generator(),
            results: settings.for_serialize().into_generator(),
        }
    }

    pub(crate) fn object(&mut self, name: &'static str, tables: &[fn(&mut Self)]) {
        self.objects.push((name, Vec::new()));
        for table in tables {
            table(self);
        }
    }

    pub(crate) fn add<Arguments: JsonSchema, Answer: Described>(&mut self, method: &'static str) {
        let arguments = match Arguments::schema_name().as_ref() {
            // Arguments that are listed in the table have no type name of their own.
            "Arguments" => Arguments::json_schema(&mut self.given),
            _ => self.given.subschema_for::<Arguments>(),
        };
        let call = Call {
            method,
            arguments: arguments.to_value(),
            answer: Answer::schema(&mut self.results),
            form: Answer::FORM,
        };
        if let Some((_, calls)) = self.objects.last_mut() {
            calls.push(call);
        }
    }

    /// The types used in arguments, by name.
    pub fn given(&self) -> &serde_json::Map<String, Value> {
        self.given.definitions()
    }

    /// The types used in answers, by name.
    pub fn results(&self) -> &serde_json::Map<String, Value> {
        self.results.definitions()
    }
}
