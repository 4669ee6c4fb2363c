// ONNX Runtime (npm's onnxruntime-node) behind Node's plain HTTP server: the peer of walle-infer in the benchmark.
//   node peer_server.js MODEL.onnx PORT PROCESSES THREADS
// Answers POST of any path with the outputs of the model: calls of the Open Inference Protocol with binary tensors.
// The processes share the port; each runs the model with THREADS threads. Prints "ready" when all of them listen.
"use strict";
const cluster = require("node:cluster");
const http = require("node:http");
const ort = require("onnxruntime-node");

const [path, port, processes, threads] = process.argv.slice(2);
const KINDS = {
    FP32: {name: "float32", array: Float32Array},
    INT64: {name: "int64", array: BigInt64Array},
};

// The tensor of one input, in the body's own memory where it is aligned.
function tensorOf(input, body, at) {
    const kind = KINDS[input.datatype];
    const size = input.parameters.binary_data_size;
    let start = body.byteOffset + at;
    let memory = body.buffer;
    if (start % kind.array.BYTES_PER_ELEMENT !== 0) {
        memory = memory.slice(start, start + size);
        start = 0;
    }
    return new ort.Tensor(kind.name, new kind.array(memory, start, size / kind.array.BYTES_PER_ELEMENT), input.shape);
}

function feedsOf(head, body, headBytes) {
    const feeds = {};
    let at = headBytes;
    for (const input of head.inputs) {
        feeds[input.name] = tensorOf(input, body, at);
        at += input.parameters.binary_data_size;
    }
    return feeds;
}

function reply(response, results) {
    const outputs = [];
    const parts = [null];
    for (const [name, tensor] of Object.entries(results)) {
        const bytes = Buffer.from(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength);
        outputs.push({name, datatype: "FP32", shape: tensor.dims, parameters: {binary_data_size: bytes.length}});
        parts.push(bytes);
    }
    parts[0] = Buffer.from(JSON.stringify({model_name: "model", outputs}));
    const whole = Buffer.concat(parts);
    response.writeHead(200, {"content-type": "application/octet-stream", "content-length": whole.length,
                             "inference-header-content-length": parts[0].length});
    response.end(whole);
}

async function answer(session, request, response, body) {
    try {
        const headBytes = Number(request.headers["inference-header-content-length"]);
        const head = JSON.parse(body.toString("utf8", 0, headBytes));
        reply(response, await session.run(feedsOf(head, body, headBytes)));
    } catch (error) {
        const text = JSON.stringify({error: String(error)});
        response.writeHead(400, {"content-length": Buffer.byteLength(text)});
        response.end(text);
    }
}

async function serve() {
    const session = await ort.InferenceSession.create(path, {
        intraOpNumThreads: Number(threads), interOpNumThreads: 1, graphOptimizationLevel: "all"});
    const server = http.createServer((request, response) => {
        const parts = [];
        request.on("data", (part) => parts.push(part));
        request.on("end", () => answer(session, request, response, Buffer.concat(parts)));
    });
    server.keepAliveTimeout = 0;
    await new Promise((done) => server.listen(Number(port), "127.0.0.1", 4096, done));
}

if (cluster.isPrimary && processes !== "1") {
    let listening = 0;
    cluster.on("listening", () => { if (++listening === Number(processes)) console.log("ready"); });
    for (let i = 0; i < Number(processes); i++) cluster.fork();
} else {
    serve().then(() => { if (cluster.isPrimary) console.log("ready"); });
}
