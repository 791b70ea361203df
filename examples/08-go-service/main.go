// A validator that denies Pods whose images have the tag "latest". It uses only Pratique's .proto files.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"strings"

	pb "example.com/images/gen"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

type pod struct {
	Spec struct {
		Containers []struct{ Image string }
	}
}

type validator struct {
	pb.UnimplementedValidatorServiceServer
}

func (validator) Validate(ctx context.Context, request *pb.ValidateRequest) (*pb.ValidateResponse, error) {
	if problem := problemOf(ctx, request); problem != "" {
		return nil, status.Error(codes.InvalidArgument, problem)
	}
	review := request.Review
	if len(review.Object) > 0 && !json.Valid(review.Object) {
		return nil, status.Error(codes.InvalidArgument, "review.object is not JSON")
	}
	response := &pb.ValidateResponse{Uid: review.Uid}
	for _, call := range request.Controllers {
		outcome := decide(review.Object)
		outcome.Controller = call.Name
		response.Verdicts = append(response.Verdicts, outcome)
	}
	return response, nil
}

func problemOf(ctx context.Context, request *pb.ValidateRequest) string {
	_, limited := ctx.Deadline()
	review := request.GetReview()
	_, known := pb.Operation_name[int32(review.GetOperation())]
	switch {
	case !limited:
		return "the call has no deadline"
	case review == nil:
		return "review is missing"
	case len(request.Controllers) == 0:
		return "controllers is empty"
	case review.Uid == "":
		return "review.uid is missing"
	case review.Operation == pb.Operation_OPERATION_UNSPECIFIED || !known:
		return "review.operation is missing or unknown"
	case review.Kind == nil || review.Resource == nil:
		return "review.kind or review.resource is missing"
	}
	for _, call := range request.Controllers {
		if call.TimeoutMillis < 0 {
			return "controllers.timeout_millis is negative"
		}
	}
	return ""
}

func decide(object []byte) *pb.Outcome {
	allowed := &pb.Outcome{Decision: &pb.Outcome_Allowed{Allowed: &pb.Allowed{}}}
	if len(object) == 0 {
		return allowed
	}
	var pod pod
	if json.Unmarshal(object, &pod) != nil {
		// The error would quote the object, which may hold secrets.
		failed := &pb.Failed{Kind: pb.Failed_KIND_ERROR, Message: "the object is not a Pod"}
		return &pb.Outcome{Decision: &pb.Outcome_Failed{Failed: failed}}
	}
	for _, container := range pod.Spec.Containers {
		if strings.HasSuffix(container.Image, ":latest") {
			message := fmt.Sprintf("image %q: name a version", container.Image)
			denied := &pb.Denied{Status: &pb.Status{Code: 403, Reason: "Forbidden", Message: message}}
			return &pb.Outcome{Decision: &pb.Outcome_Denied{Denied: denied}}
		}
	}
	return allowed
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:18908")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(16 << 20))
	pb.RegisterValidatorServiceServer(server, validator{})
	healthpb.RegisterHealthServer(server, health.NewServer())
	reflection.Register(server)
	log.Fatal(server.Serve(listener))
}
