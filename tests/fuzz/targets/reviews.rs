//! Bodies of requests to the webhook. For any body, the answer to a review of a new pod has a valid patch.
#![no_main]

use headgate::webhook::{evict, patch, pod, review::Request};
use headgate_core::{
    inject::decide,
    model::injection::{Known, Program, Terms},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let Ok(request) = Request::read(body) else { return };
    evict::read(&request);
    let Some(new) = pod::read(&request.object) else { return };
    let injection =
        decide(&new, &Known::Bound(Vec::new()), Terms { probe_grace: 5, program: Program::Available });
    let operations = patch::render(&request.object, &injection, "x.io/headgate:1");
    request.allow(operations.clone(), &injection.warnings);
    let patch: json_patch::Patch = serde_json::from_value(operations.into()).unwrap();
    json_patch::patch(&mut request.object.clone(), &patch).unwrap();
});
