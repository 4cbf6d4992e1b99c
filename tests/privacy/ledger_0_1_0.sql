BEGIN TRANSACTION;
CREATE TABLE cloister_ledger_delivery (
	number BIGINT NOT NULL, 
	delivered_at TEXT NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "cloister_ledger_delivery" VALUES(2,'2026-03-02T00:03:00.000000+00:00');
INSERT INTO "cloister_ledger_delivery" VALUES(4,'2026-03-02T00:06:00.000000+00:00');
INSERT INTO "cloister_ledger_delivery" VALUES(5,'2026-03-02T00:08:00.000000+00:00');
INSERT INTO "cloister_ledger_delivery" VALUES(6,'2026-03-02T00:10:00.000000+00:00');
INSERT INTO "cloister_ledger_delivery" VALUES(7,'2026-03-02T00:12:00.000000+00:00');
INSERT INTO "cloister_ledger_delivery" VALUES(8,'2026-03-02T00:14:00.000000+00:00');
INSERT INTO "cloister_ledger_delivery" VALUES(9,'2026-03-02T00:16:00.000000+00:00');
INSERT INTO "cloister_ledger_delivery" VALUES(10,'2026-03-02T00:18:00.000000+00:00');
INSERT INTO "cloister_ledger_delivery" VALUES(11,'2026-03-02T00:20:00.000000+00:00');
INSERT INTO "cloister_ledger_delivery" VALUES(12,'2026-03-02T00:22:00.000000+00:00');
INSERT INTO "cloister_ledger_delivery" VALUES(13,'2026-03-02T00:24:00.000000+00:00');
INSERT INTO "cloister_ledger_delivery" VALUES(14,'2026-03-02T00:26:00.000000+00:00');
INSERT INTO "cloister_ledger_delivery" VALUES(15,'2026-03-02T00:28:00.000000+00:00');
INSERT INTO "cloister_ledger_delivery" VALUES(19,'2026-03-02T00:33:00.000000+00:00');
INSERT INTO "cloister_ledger_delivery" VALUES(20,'2026-03-02T00:35:00.000000+00:00');
INSERT INTO "cloister_ledger_delivery" VALUES(21,'2026-03-02T00:37:00.000000+00:00');
INSERT INTO "cloister_ledger_delivery" VALUES(22,'2026-03-02T00:39:00.000000+00:00');
CREATE TABLE cloister_ledger_entry (
	number BIGINT NOT NULL, 
	kind TEXT NOT NULL, 
	recorded_at TEXT NOT NULL, 
	party_id TEXT NOT NULL, 
	recipient TEXT NOT NULL, 
	purpose TEXT NOT NULL, 
	body TEXT NOT NULL, 
	previous TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	payload_sha256 TEXT NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "cloister_ledger_entry" VALUES(1,'limit','2026-03-02T00:01:00.000000+00:00','clinic','','pilot','{"delta":1e-06,"epsilon":5.0,"level":"token"}','0000000000000000000000000000000000000000000000000000000000000000','c12110fc5c6163f18e8f06cabf86b01a8190feaf5cc97c665f3331d52b2c23ca','e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',0);
INSERT INTO "cloister_ledger_entry" VALUES(2,'release','2026-03-02T00:02:00.000000+00:00','clinic','hub','0.1.0','{"claimed_epsilon":null,"group_sizes":{"document":20},"level":"token","mechanism":"noisy-tables","n_values":1,"neighbours":"add-remove","note":"a sketch","simulated":false,"tables":[{"n_moved":1,"n_values":1,"name":"cells","sigma":5.0},{"n_moved":1,"n_values":1,"name":"lengths","sigma":9.0}]}','c12110fc5c6163f18e8f06cabf86b01a8190feaf5cc97c665f3331d52b2c23ca','e6127d6e6980e1c93f4a830d735d7bf724e2d983335be54c06e044a4107cb7b4','21e0c10bc7bdfdf1b0db73d1a1fa9538c54f5d51a28f58e93ee0d45b1e7f8507',6);
INSERT INTO "cloister_ledger_entry" VALUES(3,'release','2026-03-02T00:04:00.000000+00:00','clinic','hub','0.1.0','{"claimed_epsilon":null,"group_sizes":{"document":20},"level":"token","mechanism":"noisy-tables","n_values":1,"neighbours":"add-remove","note":"a sketch","simulated":false,"tables":[{"n_moved":1,"n_values":1,"name":"cells","sigma":5.0},{"n_moved":1,"n_values":1,"name":"lengths","sigma":9.0}]}','e6127d6e6980e1c93f4a830d735d7bf724e2d983335be54c06e044a4107cb7b4','6eb2a9d08de92ead6c313aefa1e5ce32422e06a5cd7823e95db5b10bb91409a0','21e0c10bc7bdfdf1b0db73d1a1fa9538c54f5d51a28f58e93ee0d45b1e7f8507',6);
INSERT INTO "cloister_ledger_entry" VALUES(4,'release','2026-03-02T00:05:00.000000+00:00','clinic','hub','0.1.0','{"claimed_epsilon":null,"group_sizes":{"document":20},"level":"token","mechanism":"noisy-tables","n_values":1,"neighbours":"add-remove","note":"a sketch","simulated":true,"tables":[{"n_moved":1,"n_values":1,"name":"cells","sigma":5.0},{"n_moved":1,"n_values":1,"name":"lengths","sigma":9.0}]}','6eb2a9d08de92ead6c313aefa1e5ce32422e06a5cd7823e95db5b10bb91409a0','7ed5f88321d46e1dc1183d2bb625daf4f0cfe493a6f3dc7ca6e3f2fa2219acbc','21e0c10bc7bdfdf1b0db73d1a1fa9538c54f5d51a28f58e93ee0d45b1e7f8507',6);
INSERT INTO "cloister_ledger_entry" VALUES(5,'release','2026-03-02T00:07:00.000000+00:00','clinic','broker','0.1.0','{"claimed_epsilon":null,"group_sizes":{},"level":"user","mechanism":"noisy-tables","n_values":1,"neighbours":"add-remove","note":"","simulated":false,"tables":[{"n_moved":64,"n_values":500,"name":"terms","sigma":90.0},{"n_moved":17,"n_values":17,"name":"sizes","sigma":40.0}]}','7ed5f88321d46e1dc1183d2bb625daf4f0cfe493a6f3dc7ca6e3f2fa2219acbc','348717af4940954816a9a80960c4d474f53ff0b260130a863d56b7ed280858c3','21e0c10bc7bdfdf1b0db73d1a1fa9538c54f5d51a28f58e93ee0d45b1e7f8507',6);
INSERT INTO "cloister_ledger_entry" VALUES(6,'release','2026-03-02T00:09:00.000000+00:00','open','hub','0.1.0','{"claimed_epsilon":null,"group_sizes":{},"level":"user","mechanism":"gaussian","n_values":1,"neighbours":"add-remove","note":"","sampling_rate":0.1,"sensitivity":1.0,"sigma":9.0,"simulated":false}','348717af4940954816a9a80960c4d474f53ff0b260130a863d56b7ed280858c3','21b0764b967d27a9532b0e4ff092720bef45acf18464cd1bd39f3b03fd4767df','21e0c10bc7bdfdf1b0db73d1a1fa9538c54f5d51a28f58e93ee0d45b1e7f8507',6);
INSERT INTO "cloister_ledger_entry" VALUES(7,'release','2026-03-02T00:11:00.000000+00:00','open','hub','0.1.0','{"claimed_epsilon":null,"group_sizes":{},"level":"user","mechanism":"discrete-gaussian","n_values":1,"neighbours":"add-remove","note":"","sampling_rate":1.0,"sensitivity":10.0,"share_sigma":30.0,"sigma":90.0,"simulated":false}','21b0764b967d27a9532b0e4ff092720bef45acf18464cd1bd39f3b03fd4767df','8eaa3a8a7ea6ced149cadf518d91e3dc07b48961085371d058077f6ae688d127','21e0c10bc7bdfdf1b0db73d1a1fa9538c54f5d51a28f58e93ee0d45b1e7f8507',6);
INSERT INTO "cloister_ledger_entry" VALUES(8,'release','2026-03-02T00:13:00.000000+00:00','open','hub','0.1.0','{"claimed_epsilon":null,"group_sizes":{"document":20},"level":"token","mechanism":"noisy-tables","n_values":1,"neighbours":"add-remove","note":"a sketch","simulated":false,"tables":[{"n_moved":1,"n_values":1,"name":"cells","sigma":5.0},{"n_moved":1,"n_values":1,"name":"lengths","sigma":9.0}]}','8eaa3a8a7ea6ced149cadf518d91e3dc07b48961085371d058077f6ae688d127','eae9ed44b3aaa301b8a0e341dbb8fd3921fc3059d4ba5b9b70258d0098f11a61','21e0c10bc7bdfdf1b0db73d1a1fa9538c54f5d51a28f58e93ee0d45b1e7f8507',6);
INSERT INTO "cloister_ledger_entry" VALUES(9,'release','2026-03-02T00:15:00.000000+00:00','open','hub','0.1.0','{"claimed_epsilon":null,"group_sizes":{},"level":"user","mechanism":"noisy-tables","n_values":1,"neighbours":"add-remove","note":"","simulated":false,"tables":[{"n_moved":64,"n_values":500,"name":"terms","sigma":90.0},{"n_moved":17,"n_values":17,"name":"sizes","sigma":40.0}]}','eae9ed44b3aaa301b8a0e341dbb8fd3921fc3059d4ba5b9b70258d0098f11a61','d31136d1b47d529876bf2c04cba94a4706b2d2ba216dadfc27bce2e3fff8bb65','21e0c10bc7bdfdf1b0db73d1a1fa9538c54f5d51a28f58e93ee0d45b1e7f8507',6);
INSERT INTO "cloister_ledger_entry" VALUES(10,'release','2026-03-02T00:17:00.000000+00:00','open','hub','0.1.0','{"claimed_epsilon":0.01,"group_sizes":{},"level":"user","mechanism":"laplace","n_values":1,"neighbours":"add-remove","note":"","scale":9.0,"sensitivity":1.0,"simulated":false}','d31136d1b47d529876bf2c04cba94a4706b2d2ba216dadfc27bce2e3fff8bb65','c118c41aedc5d50d9401d044483a399f65b29188ea2413aaf2f6815f46caa5b7','21e0c10bc7bdfdf1b0db73d1a1fa9538c54f5d51a28f58e93ee0d45b1e7f8507',6);
INSERT INTO "cloister_ledger_entry" VALUES(11,'release','2026-03-02T00:19:00.000000+00:00','open','hub','0.1.0','{"claimed_epsilon":null,"group_sizes":{},"level":"document","mechanism":"discrete-laplace","n_values":1,"neighbours":"add-remove","note":"","scale":9.0,"sensitivity":2,"simulated":false}','c118c41aedc5d50d9401d044483a399f65b29188ea2413aaf2f6815f46caa5b7','0eae752f8542e026182d4889aeac96af0c2a22e358bdac2d50c227487d70ca13','21e0c10bc7bdfdf1b0db73d1a1fa9538c54f5d51a28f58e93ee0d45b1e7f8507',6);
INSERT INTO "cloister_ledger_entry" VALUES(12,'release','2026-03-02T00:21:00.000000+00:00','open','hub','0.1.0','{"claimed_epsilon":null,"group_sizes":{},"keep_probability":0.6,"level":"interaction","mechanism":"randomised-response","n_answers":1,"n_options":2,"n_values":1,"neighbours":"replace","note":"","simulated":false}','0eae752f8542e026182d4889aeac96af0c2a22e358bdac2d50c227487d70ca13','a979ed29a0410e83d0249c3081c9e5d365ad109b7070d3c12c324bcdffc1732a','21e0c10bc7bdfdf1b0db73d1a1fa9538c54f5d51a28f58e93ee0d45b1e7f8507',6);
INSERT INTO "cloister_ledger_entry" VALUES(13,'release','2026-03-02T00:23:00.000000+00:00','open','hub','0.1.0','{"claimed_epsilon":null,"group_sizes":{},"level":"user","mechanism":"tree","n_contributions":1,"n_rounds":8,"n_rounds_between":1,"n_values":1,"neighbours":"add-remove","note":"","sensitivity":1.0,"sigma":9.0,"simulated":false}','a979ed29a0410e83d0249c3081c9e5d365ad109b7070d3c12c324bcdffc1732a','9bbc42fdf7c414420daad9fe88f94f730d49397646737ded30194651fa8e8244','21e0c10bc7bdfdf1b0db73d1a1fa9538c54f5d51a28f58e93ee0d45b1e7f8507',6);
INSERT INTO "cloister_ledger_entry" VALUES(14,'release','2026-03-02T00:25:00.000000+00:00','open','hub','0.1.0','{"claimed_epsilon":null,"delta":1e-08,"epsilon":0.0,"group_sizes":{},"level":"user","mechanism":"bounded","mechanism_name":"terms above a noisy threshold","n_values":1,"neighbours":"add-remove","note":"","simulated":false}','9bbc42fdf7c414420daad9fe88f94f730d49397646737ded30194651fa8e8244','4e26dc161521890ea7cafad7db11c44ba7946d01994ab1b324488c8cfbcbf95d','21e0c10bc7bdfdf1b0db73d1a1fa9538c54f5d51a28f58e93ee0d45b1e7f8507',6);
INSERT INTO "cloister_ledger_entry" VALUES(15,'release','2026-03-02T00:27:00.000000+00:00','open','hub','0.1.0','{"claimed_epsilon":null,"group_sizes":{},"level":"user","mechanism":"none","n_values":1,"neighbours":"add-remove","note":"","simulated":false}','4e26dc161521890ea7cafad7db11c44ba7946d01994ab1b324488c8cfbcbf95d','7d2bc85409f144bd84ccb8e752897cf529d3e172f47bb6a94826c7dcd316ecb3','21e0c10bc7bdfdf1b0db73d1a1fa9538c54f5d51a28f58e93ee0d45b1e7f8507',6);
INSERT INTO "cloister_ledger_entry" VALUES(16,'limit','2026-03-02T00:29:00.000000+00:00','open','','tried','{"delta":1e-06,"epsilon":1.0,"level":"user"}','7d2bc85409f144bd84ccb8e752897cf529d3e172f47bb6a94826c7dcd316ecb3','871ede59753faa4552d6247d0023a2f9b6422a7ad834bbe8b42f78da21457a88','e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',0);
INSERT INTO "cloister_ledger_entry" VALUES(17,'limit','2026-03-02T00:30:00.000000+00:00','open','','taken away','null','871ede59753faa4552d6247d0023a2f9b6422a7ad834bbe8b42f78da21457a88','37779b76adedca609a7ee1726ad6ad1ecbd874e4ac9cb1028f56d16ce56be48a','e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',0);
INSERT INTO "cloister_ledger_entry" VALUES(18,'limit','2026-03-02T00:31:00.000000+00:00','planned','','the plan''s','{"delta":1e-06,"epsilon":4.5,"level":"user"}','37779b76adedca609a7ee1726ad6ad1ecbd874e4ac9cb1028f56d16ce56be48a','92db9bb0b3eee7302f97473fc183a647d30e1a65e4680fae31edaa889a4a554b','e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',0);
INSERT INTO "cloister_ledger_entry" VALUES(19,'release','2026-03-02T00:32:00.000000+00:00','planned','hub','0.1.0','{"claimed_epsilon":null,"group_sizes":{},"level":"user","mechanism":"gaussian","n_values":1,"neighbours":"add-remove","note":"","sampling_rate":1.0,"sensitivity":1.0,"sigma":2.151,"simulated":false}','92db9bb0b3eee7302f97473fc183a647d30e1a65e4680fae31edaa889a4a554b','4fbf9e0073d2a7ef1c090f23c676785e4e678510ac6996aa07148b487f788976','21e0c10bc7bdfdf1b0db73d1a1fa9538c54f5d51a28f58e93ee0d45b1e7f8507',6);
INSERT INTO "cloister_ledger_entry" VALUES(20,'release','2026-03-02T00:34:00.000000+00:00','planned','hub','0.1.0','{"claimed_epsilon":null,"group_sizes":{},"level":"user","mechanism":"gaussian","n_values":1,"neighbours":"add-remove","note":"","sampling_rate":1.0,"sensitivity":1.0,"sigma":2.151,"simulated":false}','4fbf9e0073d2a7ef1c090f23c676785e4e678510ac6996aa07148b487f788976','0707d2e9e94bb2a2d22537ca8dfbb1a9a0a39bdd6415bd0d339b585486d58dae','21e0c10bc7bdfdf1b0db73d1a1fa9538c54f5d51a28f58e93ee0d45b1e7f8507',6);
INSERT INTO "cloister_ledger_entry" VALUES(21,'release','2026-03-02T00:36:00.000000+00:00','planned','hub','0.1.0','{"claimed_epsilon":null,"group_sizes":{},"level":"user","mechanism":"gaussian","n_values":1,"neighbours":"add-remove","note":"","sampling_rate":1.0,"sensitivity":1.0,"sigma":2.151,"simulated":false}','0707d2e9e94bb2a2d22537ca8dfbb1a9a0a39bdd6415bd0d339b585486d58dae','035c1558ebd36ac85a25eceb99e51354f5b9df037ebe33bd5e25a0ecc82f0865','21e0c10bc7bdfdf1b0db73d1a1fa9538c54f5d51a28f58e93ee0d45b1e7f8507',6);
INSERT INTO "cloister_ledger_entry" VALUES(22,'release','2026-03-02T00:38:00.000000+00:00','planned','hub','0.1.0','{"claimed_epsilon":null,"group_sizes":{},"level":"user","mechanism":"gaussian","n_values":1,"neighbours":"add-remove","note":"","sampling_rate":1.0,"sensitivity":1.0,"sigma":2.151,"simulated":false}','035c1558ebd36ac85a25eceb99e51354f5b9df037ebe33bd5e25a0ecc82f0865','51fa2c7516e4031760fee2e16c320b714ed2262455860a56e7cb0e74e3cadb8f','21e0c10bc7bdfdf1b0db73d1a1fa9538c54f5d51a28f58e93ee0d45b1e7f8507',6);
CREATE TABLE cloister_ledger_outbox (
	number BIGINT NOT NULL, 
	payload BLOB NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "cloister_ledger_outbox" VALUES(3,X'6E6F69736564');
CREATE TABLE cloister_ledger_spending (
	"key" TEXT NOT NULL, 
	party_id TEXT NOT NULL, 
	recipient TEXT NOT NULL, 
	simulated BOOLEAN NOT NULL, 
	release TEXT NOT NULL, 
	n_releases BIGINT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "cloister_ledger_spending" VALUES('2b3ccea1faa4ec26ccfdb5eb0cc18f990922150c44c00c28f953f28e859a4055','clinic','hub',0,'{"claimed_epsilon":null,"group_sizes":{"document":20},"level":"token","mechanism":"noisy-tables","n_values":1,"neighbours":"add-remove","note":"","simulated":false,"tables":[{"n_moved":1,"n_values":1,"name":"cells","sigma":5.0},{"n_moved":1,"n_values":1,"name":"lengths","sigma":9.0}]}',2);
INSERT INTO "cloister_ledger_spending" VALUES('9d09815dba9079cea137a25eaaa6e93eac7e1cd2a88dc2825673a8ebb78bdb11','clinic','hub',1,'{"claimed_epsilon":null,"group_sizes":{"document":20},"level":"token","mechanism":"noisy-tables","n_values":1,"neighbours":"add-remove","note":"","simulated":true,"tables":[{"n_moved":1,"n_values":1,"name":"cells","sigma":5.0},{"n_moved":1,"n_values":1,"name":"lengths","sigma":9.0}]}',1);
INSERT INTO "cloister_ledger_spending" VALUES('498dbebaa888c79ab09a6a8c4247aecce7ff7b0e8899b2500f90cc14991b5eb7','clinic','broker',0,'{"claimed_epsilon":null,"group_sizes":{},"level":"user","mechanism":"noisy-tables","n_values":1,"neighbours":"add-remove","note":"","simulated":false,"tables":[{"n_moved":64,"n_values":500,"name":"terms","sigma":90.0},{"n_moved":17,"n_values":17,"name":"sizes","sigma":40.0}]}',1);
INSERT INTO "cloister_ledger_spending" VALUES('e5deaf0df569e803cfd44202b28d267549924a3d70aebde809adb24fd9fe5fdb','open','hub',0,'{"claimed_epsilon":null,"group_sizes":{},"level":"user","mechanism":"gaussian","n_values":1,"neighbours":"add-remove","note":"","sampling_rate":0.1,"sensitivity":1.0,"sigma":9.0,"simulated":false}',1);
INSERT INTO "cloister_ledger_spending" VALUES('ef9ffd389d8bd37e9c35d48610fb11627c4c4ff72cb75f6b60e5c1a969a9cdc2','open','hub',0,'{"claimed_epsilon":null,"group_sizes":{},"level":"user","mechanism":"discrete-gaussian","n_values":1,"neighbours":"add-remove","note":"","sampling_rate":1.0,"sensitivity":10.0,"share_sigma":30.0,"sigma":90.0,"simulated":false}',1);
INSERT INTO "cloister_ledger_spending" VALUES('39d289d80f6bd795e3f1858e42b7ff6aab84c98480c004327bb66b7657b86844','open','hub',0,'{"claimed_epsilon":null,"group_sizes":{"document":20},"level":"token","mechanism":"noisy-tables","n_values":1,"neighbours":"add-remove","note":"","simulated":false,"tables":[{"n_moved":1,"n_values":1,"name":"cells","sigma":5.0},{"n_moved":1,"n_values":1,"name":"lengths","sigma":9.0}]}',1);
INSERT INTO "cloister_ledger_spending" VALUES('d2a18ccc138b58a6513009907dedb78ca2b96881d52b1c7f7d868fdb544e2573','open','hub',0,'{"claimed_epsilon":null,"group_sizes":{},"level":"user","mechanism":"noisy-tables","n_values":1,"neighbours":"add-remove","note":"","simulated":false,"tables":[{"n_moved":64,"n_values":500,"name":"terms","sigma":90.0},{"n_moved":17,"n_values":17,"name":"sizes","sigma":40.0}]}',1);
INSERT INTO "cloister_ledger_spending" VALUES('e78db3ba8066fbed46f8a9cbb12746b15fcb93bbbbe27c4c0735a9f2a12156c4','open','hub',0,'{"claimed_epsilon":0.01,"group_sizes":{},"level":"user","mechanism":"laplace","n_values":1,"neighbours":"add-remove","note":"","scale":9.0,"sensitivity":1.0,"simulated":false}',1);
INSERT INTO "cloister_ledger_spending" VALUES('af371dd1f06259ab7590d4902836e3def5ddd1fc7afce941e1bf825c4ac63f58','open','hub',0,'{"claimed_epsilon":null,"group_sizes":{},"level":"document","mechanism":"discrete-laplace","n_values":1,"neighbours":"add-remove","note":"","scale":9.0,"sensitivity":2,"simulated":false}',1);
INSERT INTO "cloister_ledger_spending" VALUES('8c523f56aedd241bd85020b393413358225ea9be601839e8ed3b5ec675b615d2','open','hub',0,'{"claimed_epsilon":null,"group_sizes":{},"keep_probability":0.6,"level":"interaction","mechanism":"randomised-response","n_answers":1,"n_options":2,"n_values":1,"neighbours":"replace","note":"","simulated":false}',1);
INSERT INTO "cloister_ledger_spending" VALUES('a1bff357e71396cdc8afe157d5ac1aec067de3313c6c1126122215d37565ebe8','open','hub',0,'{"claimed_epsilon":null,"group_sizes":{},"level":"user","mechanism":"tree","n_contributions":1,"n_rounds":8,"n_rounds_between":1,"n_values":1,"neighbours":"add-remove","note":"","sensitivity":1.0,"sigma":9.0,"simulated":false}',1);
INSERT INTO "cloister_ledger_spending" VALUES('5f5018dc795d8b2006d7d744abadbeea1e300c7c299949d21736ad810e859878','open','hub',0,'{"claimed_epsilon":null,"delta":1e-08,"epsilon":0.0,"group_sizes":{},"level":"user","mechanism":"bounded","mechanism_name":"terms above a noisy threshold","n_values":1,"neighbours":"add-remove","note":"","simulated":false}',1);
INSERT INTO "cloister_ledger_spending" VALUES('20a63bc56a1c1b489107eb41c7aeb64fa7f7a454dee274f1f19274d50444e16b','open','hub',0,'{"claimed_epsilon":null,"group_sizes":{},"level":"user","mechanism":"none","n_values":1,"neighbours":"add-remove","note":"","simulated":false}',1);
INSERT INTO "cloister_ledger_spending" VALUES('4be8ae38f1e7e7273a905f7ffb56a709eb7483cad38f6bfa973b0b7363671e45','planned','hub',0,'{"claimed_epsilon":null,"group_sizes":{},"level":"user","mechanism":"gaussian","n_values":1,"neighbours":"add-remove","note":"","sampling_rate":1.0,"sensitivity":1.0,"sigma":2.151,"simulated":false}',4);
CREATE TABLE cloister_migration (
	component TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	applied_at TEXT NOT NULL, 
	PRIMARY KEY (component, number)
);
INSERT INTO "cloister_migration" VALUES('ledger',1,'create the tables','2026-11-18T19:13:28+00:00');
CREATE INDEX cloister_ledger_entry_party ON cloister_ledger_entry (party_id, kind, number);
CREATE INDEX cloister_ledger_spending_party ON cloister_ledger_spending (party_id);
COMMIT;
