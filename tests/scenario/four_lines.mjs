import { client } from './clients/js/index.js';
await client.capabilities.register({ name: 'echo-cap', files: { 'agora-setup.sh': '#!/bin/sh\necho hello from agora-worker\n' } });
await client.subagent.register({ name: 'echo', capabilities: ['echo-cap'] });
await client.env.register({ name: 'minimal', values: { LOG_LEVEL: 'info' } });
const result = await client.dispatch({ subagent: 'echo', env: 'minimal', target: 'local', workerImage: '' });
console.log('=== resolved ==='); console.log(JSON.stringify(result.resolved)); console.log('=== stdout ==='); console.log(result.stdout);
