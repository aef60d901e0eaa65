# Static keys, switched for five minutes.
. /lib.sh
case $(argument stress) in
soak) static-key "$(argument soak_seconds)" ;;
*) static-key 300 ;;
esac
