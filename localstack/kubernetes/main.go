// Command kubernetes is every Kubernetes program that a local world needs, in one executable.
//
// It acts as the program that it is called as: by its own name (a symbolic link named
// kube-apiserver), or else by its first argument (kubernetes kube-apiserver --help).
// One executable, because the programs share nearly all of their packages: compiling and
// linking them once takes a fraction of the time and space of seven separate builds.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // CronJobs with a time zone, on machines without a zone database

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // credential plug-ins of kubeconfig files
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs maps a program's name to what runs it. Each finds its arguments in os.Args.
var programs = map[string]func() int{
	"etcd":                    runEtcd,
	"kube-apiserver":          component(apiserver.NewAPIServerCommand),
	"kube-controller-manager": component(controllermanager.NewControllerManagerCommand),
	"kube-scheduler": component(func() *cobra.Command {
		return scheduler.NewSchedulerCommand()
	}),
	"kube-proxy": component(proxy.NewProxyCommand),
	"kubelet":    component(newKubelet),
	"kubectl":    runKubectl,
}

func main() {
	if run, found := programs[filepath.Base(os.Args[0])]; found {
		os.Exit(run())
	}
	if len(os.Args) > 1 {
		if run, found := programs[os.Args[1]]; found {
			os.Args = os.Args[1:]
			os.Exit(run())
		}
	}
	fmt.Fprintln(os.Stderr, "usage: kubernetes PROGRAM [ARGUMENT...]")
	fmt.Fprintln(os.Stderr, "PROGRAM is one of etcd, kube-apiserver, kube-controller-manager, kube-proxy,")
	fmt.Fprintln(os.Stderr, "kube-scheduler, kubectl, kubelet; a link with such a name acts as that program.")
	os.Exit(2)
}

// component runs a server of Kubernetes the way its own main function does. Its command is
// built only when it is asked for: building one registers flags and metrics of the process.
func component(command func() *cobra.Command) func() int {
	return func() int { return cli.Run(command()) }
}

// runEtcd does not return while etcd serves; etcd itself exits the process on an error.
func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}

// newKubelet builds the kubelet's command. Since Kubernetes 1.34 it is given a context.
func newKubelet() *cobra.Command {
	var build any = kubelet.NewKubeletCommand
	switch build := build.(type) {
	case func() *cobra.Command:
		return build()
	case func(context.Context) *cobra.Command:
		return build(context.Background())
	}
	panic("kubelet.NewKubeletCommand has a type that this program does not know")
}

func runKubectl() int {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
	return 0
}
