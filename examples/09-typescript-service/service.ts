// A mutator that labels Pods with their namespace. It reads Pratique's .proto files when it starts.
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const proto = `${__dirname}/../../../proto`;
const definition = loadSync(["mutator_service.proto"].map((file) => `pratique/admission/v1/${file}`), {
  includeDirs: [proto],
  keepCase: true,
  longs: Number,
  enums: Number,
});
const { MutatorService } = (grpc.loadPackageDefinition(definition) as any).pratique.admission.v1;

function problemOf(call: grpc.ServerUnaryCall<any, any>): string | undefined {
  const { review, controllers } = call.request;
  if (call.getDeadline() === Infinity) return "the call has no deadline";
  if (!review) return "review is missing";
  if (!controllers?.length) return "controllers is empty";
  if (controllers.some((each: any) => each.timeout_millis < 0)) return "controllers.timeout_millis is negative";
  if (!review.uid) return "review.uid is missing";
  if (!(review.operation >= 1 && review.operation <= 4)) return "review.operation is missing or unknown";
  if (!review.kind || !review.resource) return "review.kind or review.resource is missing";
}

function decide(object: any, namespace: string): object {
  if (object === null) return { allowed: {} };
  const { metadata } = object;
  // Failed is this controller's outcome alone; its message holds no part of the object.
  if (typeof metadata !== "object") return { failed: { kind: 1, message: "the object has no metadata" } };
  if (metadata.labels?.["example.com/from"] === namespace) return { allowed: {} };
  const value = { ...metadata.labels, "example.com/from": namespace };
  const patch = [{ op: "add", path: "/metadata/labels", value }];
  return { patched: { patch: Buffer.from(JSON.stringify(patch)) } };
}

function mutate(call: grpc.ServerUnaryCall<any, any>, answer: grpc.sendUnaryData<any>): void {
  const reject = (details: string) => answer({ code: grpc.status.INVALID_ARGUMENT, details });
  const problem = problemOf(call);
  if (problem) return reject(problem);
  const { review, controllers } = call.request;
  let object: any;
  try {
    object = review.object?.length ? JSON.parse(review.object.toString()) : null;
  } catch {
    return reject("review.object is not JSON");
  }
  const steps: object[] = [];
  for (const { name } of controllers) {
    const outcome = decide(object, review.namespace);
    steps.push({ controller: name, ...outcome });
    if ("failed" in outcome) break;
    if ("patched" in outcome) object.metadata.labels = { ...object.metadata.labels, "example.com/from": review.namespace };
  }
  answer(null, { uid: review.uid, steps });
}

const server = new grpc.Server({ "grpc.max_receive_message_length": 16 << 20 });
server.addService(MutatorService.service, { Mutate: mutate });
server.bindAsync("127.0.0.1:18909", grpc.ServerCredentials.createInsecure(), (error) => {
  if (error) throw error;
});
