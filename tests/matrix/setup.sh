#!/bin/sh
# setup.sh ROOT NAME KERNEL [OPTIONAL...] - makes a guest of the matrix of a fresh system in ROOT.
#
# mmdebstrap runs it as its last hook.  KERNEL is the package that depends on the newest kernel;
# OPTIONAL packages are installed if the distribution has them.
set -eu

root=$1 name=$2 kernel=$3
shift 3

for package; do
	chroot "$root" env DEBIAN_FRONTEND=noninteractive \
		apt-get install -qy --no-install-recommends "$package" ||
		echo "no $package in $name: what wants it is skipped"
done

# The kernel is unpacked, not installed: the host boots it with an initramfs of its own, and a
# package of the distribution's would take minutes under emulation to make another one.
wanted=$kernel
while [ -n "$wanted" ]; do
	next=
	for package in $wanted; do
		case $package in linux-*-[0-9]*)
			[ ! -e "$root/tmp/kernel/$package" ] || continue
			mkdir -p "$root/tmp/kernel/$package"
			(cd "$root/tmp/kernel/$package" && APT_CONFIG=$MMDEBSTRAP_APT_CONFIG \
				apt-get download -q "$package" && dpkg-deb -x ./*.deb unpacked) ;;
		esac
		next="$next$(APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-cache depends "$package" |
			sed -n 's/^ *|\{0,1\}Depends: \(linux-\(image\|modules\)-[0-9][^ ]*\).*/ \1/p' | tr -d '\n')"
	done
	wanted=${next# }
done
for unpacked in "$root"/tmp/kernel/*/unpacked; do
	mkdir -p "$root/boot" "$root/usr/lib/modules"
	cp -a "$unpacked"/boot/. "$root/boot/"
	for modules in "$unpacked"/lib/modules "$unpacked"/usr/lib/modules; do
		[ ! -d "$modules" ] || cp -a "$modules"/. "$root/usr/lib/modules/"
	done
done
rm -rf "$root/tmp/kernel"
for modules in "$root"/usr/lib/modules/*; do
	chroot "$root" depmod "${modules##*/}"
done

# ---- a user who logs in, and may become root as on a desktop
chroot "$root" useradd -m -u 1000 -s /bin/bash tester
echo 'tester ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/tester"
chmod 440 "$root/etc/sudoers.d/tester"
echo "$name" >"$root/etc/hostname"
printf '127.0.0.1 localhost %s\n::1 localhost\n' "$name" >"$root/etc/hosts"
: >"$root/etc/resolv.conf"
echo LANG=C.UTF-8 >"$root/etc/default/locale"

# ---- what runs at boot
echo '/dev/vdb /srv ext4 defaults 0 0' >"$root/etc/fstab"
cat >"$root/etc/systemd/system/matrix.service" <<'END'
[Unit]
Description=cases of the matrix
RequiresMountsFor=/srv
Wants=systemd-logind.service
After=systemd-logind.service systemd-user-sessions.service apparmor.service dbus.socket

[Service]
ExecStart=/usr/bin/python3 -u /srv/cloister/tests/matrix/guest.py /srv /dev/vdc
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
ExecStopPost=/bin/systemctl poweroff --no-block

[Install]
WantedBy=multi-user.target
END
mkdir -p "$root/srv"
chroot "$root" systemctl enable matrix.service
chroot "$root" systemctl set-default multi-user.target
# Servers that tests start themselves, and housekeeping.
for unit in nginx.service ssh.service ssh.socket postgresql.service redis-server.service \
	haproxy.service docker-registry.service fcgiwrap.service fcgiwrap.socket prometheus.service; do
	chroot "$root" systemctl disable "$unit" >/dev/null 2>&1 || true
done
chroot "$root" systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
	e2scrub_all.timer fstrim.timer man-db.timer motd-news.timer systemd-timesyncd.service \
	serial-getty@ttyS0.service serial-getty@ttyAMA0.service getty@tty1.service >/dev/null 2>&1
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
