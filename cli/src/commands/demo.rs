//! demo
use crate::{
    args::Global,
    failure::{Exit, Result},
    output::Out,
};
/// a
#[derive(clap::Args)]
pub(crate) struct Args {}
/// b
#[derive(clap::Args)]
pub(crate) struct AgentArgs {}
/// c
pub(crate) fn run(_: &Global, _: &Args, _: &mut Out) -> Result<Exit> {
    Ok(Exit::Ok)
}
/// d
pub(crate) fn agent(_: &AgentArgs) -> Result<Exit> {
    Ok(Exit::Ok)
}
