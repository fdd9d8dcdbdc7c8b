//! Bodies of JSON objects as gRPC streams, and back.

use std::convert::Infallible;

use http_body_util::{BodyExt, StreamBody};
use hyper::{
    Response, StatusCode,
    body::{Bytes, Frame},
    header::{CONTENT_TYPE, HeaderValue},
};
use prost_reflect::MessageDescriptor;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, body::Body};

use super::{JSON, LIMIT, error_response, error_value, frame, parse, written};

/// The messages of a request whose body is JSON objects, one after the other. The stream ends with
/// the body, and fails at the first object that is invalid.
pub(super) fn requests(mut body: Body, descriptor: MessageDescriptor) -> Body {
    let (sender, frames) = mpsc::channel::<Result<Frame<Bytes>, Status>>(1);
    tokio::spawn(async move {
        let mut rest = Vec::new();
        while let Some(Ok(next)) = body.frame().await {
            let Ok(data) = next.into_data() else { continue };
            rest.extend_from_slice(&data);
            let invalid = || Status::invalid_argument("the body is not JSON objects");
            let objects = take_objects(&mut rest).ok_or_else(invalid);
            let messages = objects.and_then(|objects| {
                let parse =
                    |object: Value| parse(descriptor.clone(), object.to_string().as_bytes());
                objects.into_iter().map(parse).collect::<Result<Vec<_>, _>>()
            });
            let frames = match messages {
                Ok(messages) => messages.iter().map(|one| Ok(Frame::data(frame(one)))).collect(),
                Err(status) => vec![Err(status)],
            };
            for frame in frames {
                let failed = frame.is_err();
                if sender.send(frame).await.is_err() || failed {
                    return;
                }
            }
        }
    });
    Body::new(StreamBody::new(ReceiverStream::new(frames)))
}

/// Takes the complete objects from the front of the bytes; `None` if they are not JSON, or too
/// many.
fn take_objects(bytes: &mut Vec<u8>) -> Option<Vec<Value>> {
    let mut objects = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    let mut taken = 0;
    loop {
        match reader.next() {
            Some(Ok(object)) => {
                objects.push(object);
                taken = reader.byte_offset();
            }
            Some(Err(error)) if error.is_eof() => break,
            Some(Err(_)) => return None,
            None => break,
        }
    }
    bytes.drain(..taken);
    (bytes.len() <= LIMIT).then_some(objects)
}

/// The messages in the body of a response, as far as they have arrived.
struct Messages {
    body: Body,
    rest: Vec<u8>,
    descriptor: MessageDescriptor,
}

impl Messages {
    /// The next message; `None` at the end of a stream that did not fail.
    async fn next(&mut self) -> Result<Option<Value>, Status> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            let Some(frame) = self.body.frame().await.transpose()? else { return Ok(None) };
            match frame.into_data() {
                Ok(data) => self.rest.extend_from_slice(&data),
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap_or_default();
                    return match Status::from_header_map(&trailers) {
                        Some(status) if status.code() != tonic::Code::Ok => Err(status),
                        _ => Ok(None),
                    };
                }
            }
        }
    }

    fn take(&mut self) -> Result<Option<Value>, Status> {
        let Some((head, rest)) = self.rest.split_first_chunk::<5>() else { return Ok(None) };
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let Some(message) = rest.get(..length) else { return Ok(None) };
        let value = written(self.descriptor.clone(), message)?;
        self.rest.drain(..5 + length);
        Ok(Some(value))
    }
}

/// The messages of a response, or its error.
fn messages(response: Response<Body>, descriptor: MessageDescriptor) -> Result<Messages, Status> {
    match Status::from_header_map(response.headers()) {
        Some(status) if status.code() != tonic::Code::Ok => Err(status),
        _ => Ok(Messages { body: response.into_body(), rest: Vec::new(), descriptor }),
    }
}

/// The message of a response that has one.
pub(super) async fn only_message(
    response: Response<Body>,
    descriptor: MessageDescriptor,
) -> Result<Value, Status> {
    let mut messages = messages(response, descriptor)?;
    let message = messages.next().await?.ok_or_else(|| Status::internal("no message"))?;
    // The status follows the message.
    messages.next().await?;
    Ok(message)
}

/// A response whose body is one line for each message.
pub(super) fn responses(response: Response<Body>, descriptor: MessageDescriptor) -> Response<Body> {
    let mut messages = match messages(response, descriptor) {
        Ok(messages) => messages,
        Err(status) => return error_response(&status),
    };
    let (sender, lines) = mpsc::channel::<Result<Frame<Bytes>, Infallible>>(1);
    tokio::spawn(async move {
        loop {
            let next = tokio::select! {
                next = messages.next() => next,
                () = sender.closed() => return,
            };
            let (value, last) = match next {
                Ok(Some(message)) => (json!({ "result": message }), false),
                Ok(None) => return,
                Err(status) => (json!({ "error": error_value(&status) }), true),
            };
            let line = Bytes::from(format!("{value}\n"));
            if sender.send(Ok(Frame::data(line))).await.is_err() || last {
                return;
            }
        }
    });
    let mut response = Response::new(Body::new(StreamBody::new(ReceiverStream::new(lines))));
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}

#[cfg(test)]
mod tests {
    use super::take_objects;

    #[test]
    fn objects_are_taken_as_they_become_complete() {
        let mut bytes = b"{\"ID\":1}\n{\"ID\"".to_vec();
        assert_eq!(take_objects(&mut bytes).expect("JSON").len(), 1);
        assert_eq!(take_objects(&mut bytes).expect("JSON").len(), 0);
        bytes.extend_from_slice(b":2}{\"ID\":3} ");
        assert_eq!(take_objects(&mut bytes).expect("JSON").len(), 2);
        bytes.extend_from_slice(b"]");
        assert_eq!(take_objects(&mut bytes), None);
    }
}
