//! etcd's `Watch` service, for its recipes only.

use std::{collections::HashMap, sync::Arc};

use tokio::{sync::mpsc, task::JoinSet};
use tokio_stream::{StreamExt, wrappers::UnboundedReceiverStream};
use tonic::{Request, Response, Status, Streaming};

use super::{
    following::Follower,
    shape::{self, Watch as Shape},
};
use crate::{
    Service,
    caller::Caller,
    etcd::Etcd,
    proto::etcdserverpb::{
        WatchCreateRequest, WatchRequest, WatchResponse, watch_request::RequestUnion,
        watch_server::Watch,
    },
};

type Replies = mpsc::UnboundedSender<Result<WatchResponse, Status>>;

#[tonic::async_trait]
impl Watch for Etcd {
    type WatchStream = UnboundedReceiverStream<Result<WatchResponse, Status>>;

    async fn watch(
        &self,
        request: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (replies, stream) = mpsc::unbounded_channel();
        let watches = Watches {
            caller: Caller::of(&request),
            service: Arc::clone(&self.0),
            replies,
            tasks: JoinSet::new(),
            open: HashMap::new(),
            next: 0,
        };
        tokio::spawn(watches.run(request.into_inner()));
        Ok(Response::new(UnboundedReceiverStream::new(stream)))
    }
}

/// The watches of one stream.
struct Watches {
    caller: Caller,
    service: Arc<Service>,
    replies: Replies,
    tasks: JoinSet<()>,
    open: HashMap<i64, tokio::task::AbortHandle>,
    next: i64,
}

impl Watches {
    /// Reads a stream to its end.
    async fn run(mut self, mut requests: Streaming<WatchRequest>) {
        loop {
            let request = tokio::select! {
                request = requests.next() => request,
                () = self.replies.closed() => return,
            };
            let request_union = match request {
                Some(Ok(WatchRequest { request_union })) => request_union,
                // The watches go on: a client by HTTP sends one request and reads.
                None => return self.replies.closed().await,
                Some(Err(_)) => return,
            };
            match request_union {
                Some(RequestUnion::CreateRequest(request)) => self.create(&request),
                Some(RequestUnion::CancelRequest(request)) => self.cancel(request.watch_id),
                Some(RequestUnion::ProgressRequest(_)) => {
                    self.send(WatchResponse { watch_id: -1, ..WatchResponse::default() });
                }
                None => {}
            }
            // Finished tasks are taken out.
            while self.tasks.try_join_next().is_some() {}
        }
    }

    fn create(&mut self, request: &WatchCreateRequest) {
        let id = match request.watch_id {
            0 => self.next,
            id => id,
        };
        self.next = self.next.max(id) + 1;
        let watch = match self.acceptable(request, id) {
            Ok(watch) => watch,
            Err(reason) => {
                self.send(WatchResponse {
                    watch_id: id,
                    created: true,
                    canceled: true,
                    cancel_reason: reason.message().to_owned(),
                    ..WatchResponse::default()
                });
                return;
            }
        };
        self.send(WatchResponse { watch_id: id, created: true, ..WatchResponse::default() });
        let to = (self.caller.clone(), self.replies.clone());
        let follow = follow(Arc::clone(&self.service), watch, id, to);
        self.open.insert(id, self.tasks.spawn(follow));
    }

    fn acceptable(&self, request: &WatchCreateRequest, id: i64) -> Result<Shape, Status> {
        let watch = shape::watch(request)?;
        self.service.check_target(&self.caller, &watch.target)?;
        if self.open.contains_key(&id) {
            let exists = "a watch with this number exists on the stream";
            return Err(Status::invalid_argument(exists));
        }
        Ok(watch)
    }

    fn cancel(&mut self, id: i64) {
        if let Some(task) = self.open.remove(&id) {
            task.abort();
            self.send(WatchResponse { watch_id: id, canceled: true, ..WatchResponse::default() });
        }
    }

    fn send(&self, response: WatchResponse) {
        let header = self.service.header(self.service.lock().revision);
        // The reader of the stream notices that it has ended.
        let _ = self.replies.send(Ok(WatchResponse { header, ..response }));
    }
}

/// Sends the events of a watch.
async fn follow(
    service: Arc<Service>,
    watch: Shape,
    watch_id: i64,
    (caller, replies): (Caller, Replies),
) {
    let mut follower = Follower::new(Arc::clone(&service), watch);
    while let Some(happened) = follower.next().await {
        let revision = happened.iter().map(|one| one.revision).max().unwrap_or_default();
        let header = service.header(revision);
        let shown = happened.iter().filter_map(|one| one.event.kv.as_ref());
        if let Err(denied) = service.check_shown(&caller, shown) {
            let cancel_reason = denied.message().to_owned();
            let response = WatchResponse { header, watch_id, canceled: true, ..Default::default() };
            let _ = replies.send(Ok(WatchResponse { cancel_reason, ..response }));
            return;
        }
        let events = happened.into_iter().map(|one| one.event).collect();
        let response = WatchResponse { header, watch_id, events, ..WatchResponse::default() };
        if replies.send(Ok(response)).is_err() {
            return;
        }
    }
}
