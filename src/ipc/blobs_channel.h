/* blobs_channel.h - messages between a registry's handle and cloister-blobs, which keeps its blobs in S3: datagrams, see
 * ipc.h.
 *
 * cloister-blobs has the key to S3 and reads what the server sends.  It opens no file: contents come and go through
 * descriptors.  The handle believes no content before it has hashed it.  One question is answered before the next. */
#ifndef CLOISTER_BLOBS_CHANNEL_H
#define CLOISTER_BLOBS_CHANNEL_H

#define BLOBS_CHANNEL_FD 3              /* cloister-blobs' end */
/* A blob that was put longer ago than this is renewed before something new refers to it. */
#define BLOBS_RENEW_S (6 * 3600)

/* To cloister-blobs.  HASH: 32 bytes. */
enum blobs_message {
	/* HASH, u64 size; fd: its content, from the start.  When it is answered, the blob is in S3, and young. */
	BLOBS_PUT = 1,
	/* HASH; fd: an empty file to write it to. */
	BLOBS_GET,
	/* HASH.  Renews it if it is old. */
	BLOBS_TOUCH,
	/* u32 1: of the trash; u32 1: go on behind HASH; HASH. */
	BLOBS_LIST,
	/* HASH.  Moves it to the trash. */
	BLOBS_REMOVE,
	/* HASH.  Removes it from the trash; with u32 1, it is put back before. */
	BLOBS_PURGE,
	/* HASH, the name of a database: whether the place is its own, which it is from now on if it is nobody's.  EPERM. */
	BLOBS_OWN,
	/* Empty: whether the bucket can be read and written. */
	BLOBS_CHECK,

	/* Its answers.  DONE has u64 size (GET, TOUCH, REMOVE); of LIST: u32 1 if there are more, u64 the server's time, u32 n, and n
	 * times HASH, u64 size, u64 time. */
	BLOBS_DONE = 100,
	BLOBS_FAILED,                   /* u32 errno, str reason, safe to print; ENOENT: there is no such blob */
};
#endif
