// A calculation member on grpc-java (netty): joins, answers what it is asked, joins again when the server has gone.
//
// Usage: java -cp 'jars/*' Member.java host:port protos.binpb   (a FileDescriptorSet with all imports)
import com.google.gson.Gson;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import io.grpc.CallOptions;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

public class Member {
    private static final String SERVICE = "org.cyoda.cloud.api.grpc.CloudEventsService/";
    private static final Gson GSON = new Gson();
    private static Descriptor cloudEvent;
    private static io.grpc.Channel channel;

    public static void main(String[] arguments) throws Exception {
        cloudEvent = described(Path.of(arguments[1]));
        ManagedChannel plain = NettyChannelBuilder.forTarget(arguments[0]).usePlaintext()
            .keepAliveTime(10, TimeUnit.SECONDS).keepAliveWithoutCalls(true).build();
        Metadata metadata = new Metadata();
        metadata.put(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER), "Bearer acme");
        channel = io.grpc.ClientInterceptors.intercept(plain, MetadataUtils.newAttachHeadersInterceptor(metadata));
        say("late", serve(CallOptions.DEFAULT.withDeadlineAfter(200, TimeUnit.MILLISECONDS), false).getCode());
        say("unary", unary().getCode());
        while (true) {
            say("ended", serve(CallOptions.DEFAULT, true).getCode());
            plain.resetConnectBackoff();
            Thread.sleep(100);
        }
    }

    private static Status unary() {
        var method = method("entityManage", MethodDescriptor.MethodType.UNARY);
        try {
            ClientCalls.blockingUnaryCall(channel, method, CallOptions.DEFAULT.withDeadlineAfter(20, TimeUnit.SECONDS),
                event("Nothing", Map.of()));
            return Status.OK;
        } catch (io.grpc.StatusRuntimeException refused) {
            return refused.getStatus();
        }
    }

    private static Status serve(CallOptions options, boolean joining) throws Exception {
        var over = new ArrayBlockingQueue<Status>(1);
        var sending = new AtomicReference<StreamObserver<DynamicMessage>>();
        var call = channel.newCall(method("startStreaming", MethodDescriptor.MethodType.BIDI_STREAMING), options);
        sending.set(ClientCalls.asyncBidiStreamingCall(call, new StreamObserver<>() {
            @Override public void onNext(DynamicMessage received) {
                Map<?, ?> payload = GSON.fromJson(text(received, "text_data"), Map.class);
                switch (text(received, "type")) {
                    case "CalculationMemberGreetEvent" -> say("joined");
                    case "EntityProcessorCalculationRequest" -> {
                        Map<String, Object> answer = new LinkedHashMap<>(Map.of("id", "r", "success", true));
                        for (String name : List.of("requestId", "entityId", "payload")) {
                            answer.put(name, payload.get(name));
                        }
                        sending.get().onNext(event("EntityProcessorCalculationResponse", answer));
                    }
                    case "CalculationMemberKeepAliveEvent" -> sending.get().onNext(event("EventAckResponse",
                        Map.of("id", "a", "sourceEventId", payload.get("id"), "success", true)));
                    default -> { }
                }
            }

            @Override public void onError(Throwable failure) {
                over.add(Status.fromThrowable(failure));
            }

            @Override public void onCompleted() {
                over.add(Status.OK);
            }
        }));
        if (joining) {
            sending.get().onNext(event("CalculationMemberJoinEvent", Map.of("id", "j", "tags", List.of("member"))));
        }
        return over.take();
    }

    private static MethodDescriptor<DynamicMessage, DynamicMessage> method(String name, MethodDescriptor.MethodType type) {
        var messages = ProtoUtils.marshaller(DynamicMessage.getDefaultInstance(cloudEvent));
        return MethodDescriptor.newBuilder(messages, messages).setType(type).setFullMethodName(SERVICE + name).build();
    }

    private static DynamicMessage event(String type, Map<String, ?> payload) {
        var event = DynamicMessage.newBuilder(cloudEvent);
        Map.of("id", "c", "source", "java", "spec_version", "1.0", "type", type, "text_data", GSON.toJson(payload))
            .forEach((name, value) -> event.setField(cloudEvent.findFieldByName(name), value));
        return event.build();
    }

    private static String text(DynamicMessage event, String name) {
        return (String) event.getField(cloudEvent.findFieldByName(name));
    }

    private static Descriptor described(Path path) throws Exception {
        Map<String, FileDescriptor> files = new LinkedHashMap<>();
        for (FileDescriptorProto file : FileDescriptorSet.parseFrom(Files.readAllBytes(path)).getFileList()) {
            var imports = file.getDependencyList().stream().map(files::get).toArray(FileDescriptor[]::new);
            files.put(file.getName(), FileDescriptor.buildFrom(file, imports));
        }
        return files.get("cloudevents.proto").findMessageTypeByName("CloudEvent");
    }

    private static void say(Object... words) {
        System.out.println(String.join(" ", java.util.Arrays.stream(words).map(Object::toString).toList()));
    }
}
