//! etcd's `KV` service, for its recipes only.

use tonic::{Request, Response, Status};

use super::shape::ShapeError;
use crate::{
    etcd::Etcd,
    proto::etcdserverpb::{
        DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RangeRequest,
        RangeResponse, TxnRequest, TxnResponse, kv_server::Kv,
    },
};

#[tonic::async_trait]
impl Kv for Etcd {
    async fn range(
        &self,
        request: Request<RangeRequest>,
    ) -> Result<Response<RangeResponse>, Status> {
        self.0.range(request.into_inner()).await.map(Response::new)
    }

    async fn put(&self, _: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        Err(ShapeError::Unsupported("put").into())
    }

    async fn delete_range(
        &self,
        request: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        self.0.delete_range(request.into_inner()).await.map(Response::new)
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        self.0.txn(request.into_inner()).await.map(Response::new)
    }
}
