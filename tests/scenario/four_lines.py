import json
import cloister
client = cloister.Client()
client.capabilities.register(name='echo-cap', files={'agora-setup.sh': '#!/bin/sh\necho hello from agora-worker\n'})
client.subagent.register(name='echo', capabilities=['echo-cap'])
client.env.register(name='minimal', values={'LOG_LEVEL': 'info'})
result = client.dispatch(subagent='echo', env='minimal', target='local', worker_image='').result()
print('=== resolved ===\n' + json.dumps(result.resolved, separators=(',', ':')) + '\n=== stdout ===\n' + result.stdout)
