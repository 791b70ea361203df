"""Pod Security Standards: three levels of what Pods may do, their versions, and how a namespace is held to them.

Source: ``k8s.io/pod-security-admission``. ``levels`` and ``policies`` say what a namespace asks for, ``checks`` and
``evaluators`` what a Pod does against it, ``verdicts`` what is answered; ``namespaces`` and ``existing_pods``
concern the labels themselves, ``configurations`` and ``exemptions`` what holds for the cluster.
"""
