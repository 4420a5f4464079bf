/* disk.h - disks with the programs of a root file system: erofs images, kept as vmcache.h describes. */
#ifndef CLOISTER_DISK_H
#define CLOISTER_DISK_H

struct err;

#define DISK_PREFIX "disk-"             /* and the hash of what its folder looked like */
#define DISK_KEEP 8

/* The program that makes them; NULL: it is not installed. */
const char *disk_find_maker(struct err *err);
#endif
