//! etcd's `KV` service, for its recipes only.

use tonic::{Request, Response, Status};

use super::shape::ShapeError;
use crate::{
    caller::Caller,
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
        let caller = Caller::of(&request);
        let response = self.0.range(request.into_inner()).await?;
        self.0.check_shown(&caller, &response.kvs)?;
        Ok(Response::new(response))
    }

    async fn put(&self, _: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        Err(ShapeError::Unsupported("put").into())
    }

    async fn delete_range(
        &self,
        request: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        let by = self.0.by(&Caller::of(&request));
        self.0.delete_range(request.into_inner(), by).await.map(Response::new)
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        let caller = Caller::of(&request);
        let response = self.0.txn(request.into_inner(), self.0.by(&caller)).await?;
        self.0.check_read(&caller, &response)?;
        Ok(Response::new(response))
    }
}
