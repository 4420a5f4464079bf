// s3rver.mjs FOLDER PORT BUCKET - s3rver's fork that verifies signatures, until its input ends.
import { createRequire } from "node:module";
const require = createRequire(process.env.NPM + "/package.json");
const S3rver = require("@20minutes/s3rver");

const [directory, port, bucket] = process.argv.slice(2);
const server = new S3rver({ address: "127.0.0.1", port: Number(port), silent: true, directory,
                            configureBuckets: [{ name: bucket }] });
await server.run();
console.log("ready");
process.stdin.on("end", () => process.exit(0)).resume();
