/* scheme_keys.h - keys that were made for these tests and open nothing. */
#ifndef CLOISTER_SCHEME_KEYS_H
#define CLOISTER_SCHEME_KEYS_H

__attribute__((unused)) static const char rsa_placeholder[] =
	"-----BEGIN RSA PRIVATE KEY-----\n"
	"MIIEowIBAAKCAQEAyipn9PDVNySp+11zM/qHG3iMLmJysqNnQ916ftH7c+vVjpED\n"
	"dpp++WFS2ld2QsAZr9S9whpWTXvejUXljA8FHixbVWoeB6N67d1NQ7GJ6JDZzze6\n"
	"X/F7KobCvD0tctQ0jwOLeK5PJ9g6T/s5Ki+o4miIFNBzwvExrEngVmX00wCQapfS\n"
	"uZTFFNU9bg+AjbQFCdR9lzO7HbAZx0Xkwa+SCT+JR+xxg9j9069PBE9e2ucaFd2m\n"
	"lTZOr+RwH4Fk211fTCOErpb3tglP/Zp3hjoZvgU0G6C22EJFItizhqvuAgut8DCU\n"
	"pHXtamPRIzJXc1tzY0KO3/QBQgf93QSkDvXm+wIDAQABAoIBAB7XADvL32LFm46m\n"
	"b1QPFDw7E/thdkjNB4xBRZYCF19UKyRP99zIbbVCRP7c18QQBPsfM4FgPikcy9L2\n"
	"RjGq+udi8d3iTclxhWey2j4I39ZT/n4PbMWFE3ply2Am3v+E4q2sZ0LWKGoWILMh\n"
	"ylMmqRc8xgGS2Q30eFTlgiz76bCkQAw3NfqJxB16kZ5FVxef+V1o4DETHqxWwyWR\n"
	"WPTzKUKadYBQGzilKGS1H+5D1uXIjIfK4g137uJCurf2cqnQ1ez95aDt4lrOTCOM\n"
	"tMr0cEkFJYapVTN14QdeYlLYrsgtNaXfRxx0ANBcJ3kdtdO1BzVrOuIcZXfRtfy2\n"
	"LVBWPlkCgYEA/lkx48mE/9XauLFjexjYjB8554BhpYlcFNIMd8mTiShWdOz+UqkY\n"
	"dfdvP8MG/vq/yByIR/+w5hjRJGtUJ7NYlk9gp0jruYebW5htzuZdWHsduZrxfxOx\n"
	"BtJRAEN+Fh+T9vZh648nBjVri3aaFAbH1Zb/HvVIAaOEyWExWWvyrQkCgYEAy3p3\n"
	"qSquYqr7T1A3lGe07BJGWfdx3+wYhfRaldeZYqxmIC2rB+ecDauImVchf/UQBe1Q\n"
	"QI0zDKHxQKZVCnLq3YCjgbfGiDRhDOrRdyyj8OPrRGAq/WqIf8Vf0362u1mTdrot\n"
	"YQVaPW1bHf17D4w0STIaBh13wmoULjza4hkouOMCgYAZxQ+49IH1KcWvUMmzfyDx\n"
	"kXhcbDV4gCJEOcPpnxLDosKftiNOXLONwDQVUb0zuFQWAk4MfWt+5KTL+9Pa8eDX\n"
	"2dMBH/JCKesjrJ3ziIOMo2yvkXNGXMhi2Iw8aporw6dKLkxdgXOCvYbX6nxR6x30\n"
	"FghjKpbRE7Awdxh45ub/gQKBgQC3yOPv3ecoo3reBnxNBOa7Gz6D4CXwtNTpmO2A\n"
	"zf1yzHhptBX4y8994WM97R8K7hQM5m5H/8EONe8sD5BcIbPVYW1Nquoc+AJ4oleT\n"
	"prRkzdggKCRsRB8KGQIWiysNSTkSUdLPAQCi3vUfv2W5g09ulVxADbmv1hRoNvsU\n"
	"oNjRNQKBgBG19n9ZNBJL8m/dGG1UhH/gLeerMThfHBXuprUHfgiE34ZGB9ffTPmP\n"
	"bZik5ISSLvNEApbN4tNyhVzsxdcFRPK3migVMrLPWQZvCS17qG1n9/+drIil1do9\n"
	"gFD8mjSEPolfKw1Uw2KJkgZGePmWFJAXZGOaBYGYw8Q0wUqrZJme\n"
	"-----END RSA PRIVATE KEY-----\n";

__attribute__((unused)) static const char rsa_real[] =
	"-----BEGIN RSA PRIVATE KEY-----\n"
	"MIIEowIBAAKCAQEAqYbyzAIIlGfexfGFTqvBtQYY9YtCX2EdSpdtQ+ycNFzdokHC\n"
	"V9MIo9DHCbMhVUcR6lJMBmCHEHZ7VmkNBxUZt8f5Md1JHDChGCMDEhjictzfpIjK\n"
	"Us4E84czn8y2DN7fv7XS7a7IAFGgSwdWQ3o/RdYEV7d88Vek3+HH4WRc5qIlY1SU\n"
	"qUTI45lktAWqz8hG95zvX5Gw1tU8X0m+dxif9IfJWvQcaCTxZghmWsRxfXE9TzM1\n"
	"fzneNp+KgMMGNp6BC5JDfcRpcewq//jTLGxABNhUy2IftJy9ctyPGfX2/HfGbDrj\n"
	"B/2BlgshQU3RMmlPqLgTWClCE6boT2VJN80O2QIDAQABAoIBAD/VPXUNyvc+iUaV\n"
	"Y7G0wLKOAjXq4uoRIjtk+1KZNFQPJ7Eh+7CgGN++DEQdvA5lPVyy8kdwb0sGofhu\n"
	"g+ZHzrBBzxY0kYPY17/D5zMYRaQkgN1uWGiHhJvCK/Ee3unHvg5sw2iV6F8eXTID\n"
	"KDsuO8brCCWTRKuHaeCXHnFDHiwFAuvtKC7jkNGnXzkaA1yr6B4tbT0N1SdYzEvN\n"
	"loYLqaZa645rnWSFeagl5YwkUA4yGn1wDtPruSFG4fh8YN/4TaNM0zGnlT98itcr\n"
	"fg3q2aZB7c7UdZ19Yq3ij+XxBC0yxoep27fZqtUFqKXNY+QUCGrenDNm1Gj2BmI8\n"
	"NKcTCgUCgYEA2h/gaytsqSNUhX50WZZ9J86WtNVhfuLFGnqsWWJHppXfZedevQky\n"
	"95bEVXfzOM66tB6mQFx79RIIV6FzTUoLMEVObh+mqvl4F8g0zYtaUBGjpAZdKrW2\n"
	"sXe5mPA6OsQ6XKQ1tURVcr5VAKbnmTUKq5dHtxsZ/Fgrkg9GTw5Slb8CgYEAxvbP\n"
	"QVybwrQ+WRFutGcfhZezAP10Ef02olaLLLZucdfcr1WB5F1UB4HcByeeis70MSkO\n"
	"DJzED96DjuAzMKWwFjeYssPok/+ebck/aI08ZHBczmPVKMM80D6YrY9w9T5XH3UL\n"
	"cNM2qahUALgMQh7LrV1AhmCxs1i3a3PJttTm8WcCgYByIt32lilss80FcW8GdeWV\n"
	"j9dyVnmGwLisq2ZF+1RMyf20wAXl2sttnNmtc2+02Q//Mk6CPSKr0TzGRfgkiEsk\n"
	"fg+VNkCrFJEPuLZQm8utPB2ptZ7Iu38Wi/R1H7cIiyeS1GY6LMCdoxStm6hylbu4\n"
	"oBdpq+fEEIr0CcQbl/4E1wKBgDP1opyELd1EKwAhsFKGl9HQkxvQFO7ZvNnaVhBA\n"
	"OEmcwPI9F2XnBZnMTQTFUP8ZGuZ3vUaH7h/i0WKPpG6w5nJ25HbS+Lslx18ObnPE\n"
	"ZqAoQ+RWaAV0Lz6HCmJREoPJWwFJFMrLLfxSjFV/uxvNZQ2KS96MA/w9T/FM1MHd\n"
	"ic5DAoGBANlr5CtnAgZ1KydC+vwTgtzPuLknbJVBVzmql8DevcQ2wpHGWP5xdO0o\n"
	"pTT1iS2CMzdG5CBt4oOBp+QZEvR8sQ8qe8JqqcCIMOlgNiI4PqSPt1eHFHxRGxzV\n"
	"qTwH02ReSmf9cx0+zS4j5NnIH8wal879Kc2148rf1lbNIH0fWW2z\n"
	"-----END RSA PRIVATE KEY-----\n";

__attribute__((unused)) static const char ec_placeholder[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgtvqqt2ydsMbjdtTN\n"
	"o8/cHoiEY6Hgi8gPyNFAPBLL+xShRANCAATek32NDqVX5zfoHKZYk9jLcR8BRJcR\n"
	"ziF6kgAjz5Vzo4OAVx4wI+k13VvpEDvid6Gjql/jJ4h+VWzJp0kC70AY\n"
	"-----END PRIVATE KEY-----\n";

__attribute__((unused)) static const char ec_real[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgRYLkrJi6kg1G1LS5\n"
	"TgH/aBtTT0jHlXEr5kyvevai3mqhRANCAARYjYBB/kBESZpjjMz3PMP26C/4Z8ef\n"
	"7pFLLGtFr+Vi0/uiladiiQpb+Id74iyEJVEB42V2kl2LAAwP1/qUBVS2\n"
	"-----END PRIVATE KEY-----\n";

__attribute__((unused)) static const char ec384_placeholder[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDBxfnlgqQlHRsItgiUz\n"
	"B1gfTBGwaDVGYoq54z08YNIB43lBbwsZHgue50kZ5Equ4C2hZANiAAShF4l3yD4j\n"
	"qxP68XZzApxlhcWsFeJVaONv2lu75YflmeVlFREcNPb7wvSKe9CKm1Bvo8K7o+32\n"
	"pXhnN02mXW/Pyi6yFalu2iS44jaxLHqKEZN9MuAh4GSKseOj6QI4sS0=\n"
	"-----END PRIVATE KEY-----\n";

__attribute__((unused)) static const char ec384_real[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDCNDRDOserAIw+ars8b\n"
	"ZSj3YSIFszR1ybKzXpFhoIUBSDah0+sAzLMnX2teXixu1qOhZANiAAQTRmP8VpsY\n"
	"chUDo/ejDL4tbLUYpjbd/E17R+5IIt4PjSvqurCc6NmdF+XECpFahFv2H1ite5yW\n"
	"LEEvNUvp8kBjE0gH3bAfdu4+r4MsOEdCt8i8H5YETGF2oTrNFYJvcKs=\n"
	"-----END PRIVATE KEY-----\n";

__attribute__((unused)) static const char ed_placeholder[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MC4CAQAwBQYDK2VwBCIEIHvIyr2/cvYx07yYuVeWMW9Vi9UlkoeYpVHjY50N7mDv\n"
	"-----END PRIVATE KEY-----\n";

__attribute__((unused)) static const char ed_real[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MC4CAQAwBQYDK2VwBCIEIIlNDan3SHjqP769M/Hi1S2KnLReUkX/pZNmYtW3mSR3\n"
	"-----END PRIVATE KEY-----\n";
#endif
