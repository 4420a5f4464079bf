// wasi.js - the imports of a WASI module (preview 1), for the engine in cloister-wasm.
//
// Evaluates to a function.  `host(number, ...)` makes a system call: wasm_files.c has them by these numbers.  Bytes pass
// in `area`, since the engine lets nobody else into a module's memory.
(function (host, area, module, about) {
'use strict';
const { calls, argv, env } = JSON.parse(about);
const sys = {};
calls.forEach((name, i) => {
	sys[name] = (...n) => {
		const r = host(i, ...n);
		if (Number.isNaN(r))
			throw new Error('it printed too much');
		return r;
	};
});

const BADF = 8, INVAL = 28, NOSYS = 52, NAMETOOLONG = 37;
const AREA = area.byteLength, HALF = AREA / 2, PATH = 4096;
const shared = new Uint8Array(area);
let memory, status = 0;
const exited = {};

const bytes = (at, n) => new Uint8Array(memory.buffer, at >>> 0, n >>> 0);
const view = () => new DataView(memory.buffer);
const u32 = (at, v) => view().setUint32(at >>> 0, v, true);
const u64 = (at, v) => view().setBigUint64(at >>> 0, BigInt(v), true);
const give = (at, n) => bytes(at, n).set(shared.subarray(0, n));
const done = (r) => r < 0 ? -r : 0;

// Text as UTF-8; the engine has no TextEncoder.
const encode = (text) => Uint8Array.from(unescape(encodeURIComponent(text + '\0')), (c) => c.charCodeAt(0));
const texts = { args: argv.map(encode), environ: env.map(encode) };
const sizes = (list) => (n, size) => {
	u32(n, list.length);
	u32(size, list.reduce((sum, text) => sum + text.length, 0));
	return 0;
};
const strings = (list) => (pointers, to) => {
	for (const text of list) {
		u32(pointers, to);
		bytes(to, text.length).set(text);
		pointers += 4;
		to += text.length;
	}
	return 0;
};

// Take a path into the area.
const path = (at, n, to = 0) => {
	if (n >>> 0 > PATH)
		return false;
	shared.set(bytes(at, n), to);
	return true;
};

// Reads and writes, piece by piece of each vector; `offset` -1: where the file is.
const transfer = (name) => (fd, vectors, n, offset, total) => {
	const writes = name === 'write';
	let sum = 0;
	for (let i = 0; i < n; i++, vectors += 8) {
		let at = view().getUint32(vectors >>> 0, true), left = view().getUint32((vectors >>> 0) + 4, true);
		while (left > 0) {
			const piece = Math.min(left, AREA);
			if (writes)
				shared.set(bytes(at, piece));
			const r = sys[name](fd, piece, offset < 0 ? -1 : offset + sum);
			if (r < 0 && sum === 0)
				return -r;
			if (r > 0 && !writes)
				give(at, r);
			sum += Math.max(r, 0);
			at += Math.max(r, 0);
			left -= Math.max(r, 0);
			// What is there is enough: the rest may never come.
			if (r < piece) {
				u32(total, sum);
				return 0;
			}
		}
	}
	u32(total, sum);
	return 0;
};
const read = transfer('read'), write = transfer('write');

// A result of `size` bytes.
const filled = (r, at, size) => {
	if (r < 0)
		return -r;
	give(at, size);
	return 0;
};

// Waits for the first clock; files are always ready: reading them waits.
const poll = (subscriptions, events, n, count) => {
	const v = view(), clocks = [];
	let ready = 0;
	for (let i = 0; i < n; i++) {
		const at = (subscriptions >>> 0) + 48 * i, type = v.getUint8(at + 8);
		if (type !== 0) {
			event(v, events + 32 * ready++, v.getBigUint64(at, true), type);
			continue;
		}
		const when = Number(v.getBigUint64(at + 24, true)), absolute = v.getUint16(at + 40, true) & 1;
		if (absolute)
			sys.clock(v.getUint32(at + 16, true));
		const now = absolute ? Number(new DataView(area).getBigUint64(0, true)) : 0;
		clocks.push({ after: Math.max(when - now, 0), user: v.getBigUint64(at, true) });
	}
	if (n === 0)
		return INVAL;
	if (ready === 0) {
		const first = clocks.reduce((a, b) => b.after < a.after ? b : a);
		sys.sleep(first.after);
		event(view(), events, first.user, 0);
		ready = 1;
	}
	u32(count, ready);
	return 0;
};
const event = (v, at, user, type) => {
	at >>>= 0;
	v.setBigUint64(at, user, true);
	v.setUint16(at + 8, 0, true);
	v.setUint8(at + 10, type);
	v.setBigUint64(at + 16, type === 0 ? 0n : 1n, true);
	v.setUint16(at + 24, 0, true);
};

const wasi = {
	args_sizes_get: sizes(texts.args), args_get: strings(texts.args),
	environ_sizes_get: sizes(texts.environ), environ_get: strings(texts.environ),
	clock_res_get: (id, at) => { u64(at, 1); return 0; },
	clock_time_get: (id, precision, at) => filled(sys.clock(id), at, 8),
	random_get(at, n) {
		for (let piece; (n >>>= 0) > 0; at += piece, n -= piece) {
			piece = Math.min(n, AREA);
			const r = filled(sys.random(piece), at, piece);
			if (r !== 0)
				return r;
		}
		return 0;
	},
	sched_yield: () => 0,
	proc_exit(code) { status = code; throw exited; },
	proc_raise: () => NOSYS,
	poll_oneoff: poll,

	fd_read: (fd, vectors, n, total) => read(fd, vectors, n, -1, total),
	fd_write: (fd, vectors, n, total) => write(fd, vectors, n, -1, total),
	fd_pread: (fd, vectors, n, offset, total) => read(fd, vectors, n, Number(offset), total),
	fd_pwrite: (fd, vectors, n, offset, total) => write(fd, vectors, n, Number(offset), total),
	sock_accept: () => NOSYS,
	sock_recv(fd, vectors, n, flags, total, ret_flags) {
		view().setUint16(ret_flags >>> 0, 0, true);
		return read(fd, vectors, n, -1, total);
	},
	sock_send: (fd, vectors, n, flags, total) => write(fd, vectors, n, -1, total),
	sock_shutdown: (fd, how) => done(sys.shutdown(fd, how)),
	fd_advise: () => 0,
	fd_allocate: (fd, offset, n) => done(sys.allocate(fd, Number(offset), Number(n))),
	fd_close: (fd) => done(sys.close(fd)),
	fd_datasync: (fd) => done(sys.sync(fd)),
	fd_sync: (fd) => done(sys.sync(fd)),
	fd_fdstat_get: (fd, at) => filled(sys.state(fd), at, 24),
	fd_fdstat_set_flags: (fd, flags) => done(sys.flags(fd, flags)),
	fd_fdstat_set_rights: (fd) => done(sys.state(fd)),
	fd_filestat_get: (fd, at) => filled(sys.stat(fd), at, 64),
	fd_filestat_set_size: (fd, size) => done(sys.truncate(fd, Number(size))),
	fd_filestat_set_times: (fd, a, m, flags) => done(sys.times(fd, Number(a), Number(m), flags)),
	fd_prestat_get(fd, at) {
		const r = sys.given(fd);
		if (r < 0)
			return -r;
		u32(at, 0);
		u32(at + 4, r);
		return 0;
	},
	fd_prestat_dir_name(fd, at, n) {
		const r = sys.given(fd);
		return r < 0 ? -r : r > n >>> 0 ? NAMETOOLONG : filled(0, at, r);
	},
	fd_readdir(fd, at, n, cookie, used) {
		const r = sys.list(fd, Number(cookie), Math.min(n >>> 0, AREA));
		if (r < 0)
			return -r;
		give(at, r);
		u32(used, r);
		return 0;
	},
	fd_renumber: (from, to) => done(sys.renumber(from, to)),
	fd_seek(fd, offset, whence, at) {
		const r = sys.seek(fd, Number(offset), whence);
		if (r < 0)
			return -r;
		u64(at, r);
		return 0;
	},
	fd_tell: (fd, at) => wasi.fd_seek(fd, 0, 1, at),

	path_open(fd, follow, at, n, oflags, base, inheriting, flags, ret) {
		if (!path(at, n))
			return NAMETOOLONG;
		// Rights to read (fd_read, fd_readdir) and to write (fd_write, fd_allocate, fd_filestat_set_size).
		const rights = BigInt.asUintN(64, BigInt(base));
		const mode = (rights & 0x4002n ? 1 : 0) | (rights & 0x400140n ? 2 : 0);
		const r = sys.open(fd, n, oflags, mode, flags, follow);
		if (r < 0)
			return -r;
		u32(ret, r);
		return 0;
	},
	path_filestat_get: (fd, follow, at, n, to) =>
		path(at, n) ? filled(sys.stat_path(fd, n, follow), to, 64) : NAMETOOLONG,
	path_filestat_set_times: (fd, follow, at, n, a, m, flags) =>
		path(at, n) ? done(sys.times_path(fd, n, follow, Number(a), Number(m), flags)) : NAMETOOLONG,
	path_create_directory: (fd, at, n) => path(at, n) ? done(sys.mkdir(fd, n)) : NAMETOOLONG,
	path_remove_directory: (fd, at, n) => path(at, n) ? done(sys.remove(fd, n, 1)) : NAMETOOLONG,
	path_unlink_file: (fd, at, n) => path(at, n) ? done(sys.remove(fd, n, 0)) : NAMETOOLONG,
	path_rename: (fd, at, n, to, at2, n2) =>
		path(at, n) && path(at2, n2, HALF) ? done(sys.rename(fd, n, to, n2)) : NAMETOOLONG,
	path_link: (fd, follow, at, n, to, at2, n2) =>
		path(at, n) && path(at2, n2, HALF) ? done(sys.link(fd, n, to, n2)) : NAMETOOLONG,
	path_symlink: (at, n, fd, at2, n2) =>
		path(at, n) && path(at2, n2, HALF) ? done(sys.symlink(n, fd, n2)) : NAMETOOLONG,
	path_readlink(fd, at, n, to, max, used) {
		if (!path(at, n))
			return NAMETOOLONG;
		const r = sys.readlink(fd, n);
		if (r < 0)
			return -r;
		const size = Math.min(r, max >>> 0);
		give(to, size);
		u32(used, size);
		return 0;
	},
};

// A pointer outside of the memory is the module's error, as it would be for a system call.
for (const name of Object.keys(wasi)) {
	const call = wasi[name];
	wasi[name] = (...n) => {
		try {
			return call(...n);
		} catch (e) {
			if (e instanceof RangeError)
				return 21;
			throw e;
		}
	};
}

const instance = new WebAssembly.Instance(new WebAssembly.Module(module), { wasi_snapshot_preview1: wasi });
const { _start } = instance.exports;
memory = instance.exports.memory;
if (!(memory instanceof WebAssembly.Memory) || typeof _start !== 'function')
	throw new Error('it is no WASI command: it exports no memory, or no _start');
try {
	_start();
} catch (e) {
	if (e !== exited)
		throw e;
}
return status;
})
