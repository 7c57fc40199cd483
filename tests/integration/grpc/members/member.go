// A calculation member on google.golang.org/grpc: joins, answers what it is asked, joins again when the server has gone.
//
// Usage: go run member.go host:port protos.binpb   (a FileDescriptorSet with all imports)
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

const service = "/org.cyoda.cloud.api.grpc.CloudEventsService/"

var cloudEvent protoreflect.MessageDescriptor

type object map[string]any

func main() {
	cloudEvent = described(os.Args[2])
	again := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.1, MaxDelay: 200 * time.Millisecond}
	connection, err := grpc.NewClient(os.Args[1],
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: again, MinConnectTimeout: 5 * time.Second}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}))
	must(err)
	ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer acme")
	limited, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	stream, err := open(limited, connection)
	must(err)
	say("late", status.Code(stream.RecvMsg(dynamicpb.NewMessage(cloudEvent))))
	cancel()
	patient, cancel := context.WithTimeout(ctx, 20*time.Second)
	say("unary", status.Code(connection.Invoke(patient, service+"entityManage", event("Nothing", object{}), dynamicpb.NewMessage(cloudEvent))))
	cancel()
	for {
		say("ended", status.Code(serve(ctx, connection)))
		time.Sleep(100 * time.Millisecond)
	}
}

func serve(ctx context.Context, connection *grpc.ClientConn) error {
	stream, err := open(ctx, connection)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(event("CalculationMemberJoinEvent", object{"id": "j", "tags": []string{"member"}})); err != nil {
		return stream.RecvMsg(dynamicpb.NewMessage(cloudEvent))
	}
	for {
		received := dynamicpb.NewMessage(cloudEvent)
		if err := stream.RecvMsg(received); err != nil {
			return err
		}
		payload := object{}
		must(json.Unmarshal([]byte(received.Get(field("text_data")).String()), &payload))
		switch received.Get(field("type")).String() {
		case "CalculationMemberGreetEvent":
			say("joined")
		case "EntityProcessorCalculationRequest":
			answer := object{"id": "r", "requestId": payload["requestId"], "entityId": payload["entityId"], "payload": payload["payload"], "success": true}
			_ = stream.SendMsg(event("EntityProcessorCalculationResponse", answer))
		case "CalculationMemberKeepAliveEvent":
			_ = stream.SendMsg(event("EventAckResponse", object{"id": "a", "sourceEventId": payload["id"], "success": true}))
		}
	}
}

func open(ctx context.Context, connection *grpc.ClientConn) (grpc.ClientStream, error) {
	both := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	return connection.NewStream(ctx, both, service+"startStreaming")
}

func event(kind string, payload object) proto.Message {
	text, err := json.Marshal(payload)
	must(err)
	message := dynamicpb.NewMessage(cloudEvent)
	for name, value := range map[string]string{"id": "c", "source": "go", "spec_version": "1.0", "type": kind, "text_data": string(text)} {
		message.Set(field(name), protoreflect.ValueOfString(value))
	}
	return message
}

func field(name string) protoreflect.FieldDescriptor {
	return cloudEvent.Fields().ByName(protoreflect.Name(name))
}

func described(path string) protoreflect.MessageDescriptor {
	octets, err := os.ReadFile(path)
	must(err)
	set := &descriptorpb.FileDescriptorSet{}
	must(proto.Unmarshal(octets, set))
	files, err := protodesc.NewFiles(set)
	must(err)
	found, err := files.FindDescriptorByName("io.cloudevents.v1.CloudEvent")
	must(err)
	return found.(protoreflect.MessageDescriptor)
}

func say(words ...any) {
	fmt.Println(words...)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
