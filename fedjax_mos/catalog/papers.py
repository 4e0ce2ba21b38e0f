"""The papers that the catalog cites."""

FEDMOS = (
    "Wang et al., FedMoS: Taming Client Drift in Federated Learning with Double "
    "Momentum and Adaptive Selection, INFOCOM 2023"
)
FEDAVG = (
    "McMahan et al., Communication-Efficient Learning of Deep Networks from "
    "Decentralized Data, AISTATS 2017"
)
FEDPROX = "Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020"
FEDACG = (
    "Kim et al., Communication-Efficient Federated Learning with Accelerated Client "
    "Gradient, CVPR 2024"
)
FEDDYN = "Acar et al., Federated Learning Based on Dynamic Regularization, ICLR 2021"
FEDDC = (
    "Gao et al., FedDC: Federated Learning with Non-IID Data via Local Drift "
    "Decoupling and Correction, CVPR 2022"
)
FEDCM = "Xu et al., FedCM: Federated Learning with Client-level Momentum, 2021"
HSU = (
    "Hsu et al., Measuring the Effects of Non-Identical Data Distribution for "
    "Federated Visual Classification, 2019"
)
FEDOPT = "Reddi et al., Adaptive Federated Optimization, ICLR 2021"
FEDAMS = "Wang et al., Communication-Efficient Adaptive Federated Learning, ICML 2022"
SLOWMO = (
    "Wang et al., SlowMo: Improving Communication-Efficient Distributed SGD with Slow "
    "Momentum, ICLR 2020"
)
SCAFFOLD = (
    "Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated "
    "Learning, ICML 2020"
)
MIME = (
    "Karimireddy et al., Breaking the Centralized Barrier for Cross-Device Federated "
    "Learning, NeurIPS 2021"
)
STEM = (
    "Khanduri et al., STEM: A Stochastic Two-Sided Momentum Algorithm Achieving "
    "Near-Optimal Sample and Communication Complexities for Federated Learning, "
    "NeurIPS 2021"
)
GLOMO = (
    "Das et al., Faster Non-Convex Federated Learning via Global and Local Momentum, "
    "UAI 2022"
)
LAG = (
    "Chen et al., LAG: Lazily Aggregated Gradient for Communication-Efficient "
    "Distributed Learning, NeurIPS 2018"
)
NLA = (
    "Bidirectional communication-efficient non-convex adaptive federated learning, "
    "anonymous submission, 2024"
)
MOON = "Li, He and Song, Model-Contrastive Federated Learning, CVPR 2021"
FEDMLB = (
    "Kim et al., Multi-Level Branched Regularization for Federated Learning, ICML 2022"
)
FEDLC = (
    "Zhang et al., Federated Learning with Label Distribution Skew via Logits "
    "Calibration, ICML 2022"
)
FEDNTD = (
    "Lee et al., Preservation of the Global Knowledge by Not-True Distillation in "
    "Federated Learning, NeurIPS 2022"
)
FEDDECORR = (
    "Shi et al., Towards Understanding and Mitigating Dimensional Collapse in "
    "Heterogeneous Federated Learning, ICLR 2023"
)
FRABONI = (
    "Fraboni et al., Clustered Sampling: Low-Variance and Improved Representativity "
    "for Clients Selection in Federated Learning, ICML 2021"
)
POWER = (
    "Cho et al., Towards Understanding Biased Client Selection in Federated Learning, "
    "AISTATS 2022"
)
SYSTEMATIC = "Madow, On the Theory of Systematic Sampling, 1949"
STICH = "Stich et al., Sparsified SGD with Memory, NeurIPS 2018"
RESNET = "He et al., Deep Residual Learning for Image Recognition, CVPR 2016"
OURS = "this package"
YUROCHKIN = (
    "Yurochkin et al., Bayesian Nonparametric Federated Learning of Neural Networks, "
    "ICML 2019"
)
SILOS = (
    "Li et al., Federated Learning on Non-IID Data Silos: An Experimental Study, "
    "ICDE 2022"
)
